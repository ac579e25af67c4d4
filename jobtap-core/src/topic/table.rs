//! The topics of the job manager, one type each.

use super::caps::*;
use super::{OnFailure, Topic, TopicInfo, TopicSet};

macro_rules! topics {
    ($( $(#[$doc:meta])* $name:ident = $string:literal, $policy:ident: $($cap:ident)*; )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name;

            impl TopicSet for $name {}
            impl Topic for $name {
                const NAME: &'static str = $string;
                const ON_FAILURE: OnFailure = OnFailure::$policy;
            }
            $( impl $cap for $name {} )*
        )*

        /// Every topic of the job manager, in the order of a job's life.
        pub const TOPICS: &[TopicInfo] = &[
            $( TopicInfo { name: $string, on_failure: OnFailure::$policy }, )*
        ];
    };
}

topics! {
    /// `conf.update`: the instance's configuration, once when the plugin is loaded and at each
    /// change. A refusal fails the load, or the reload (the old configuration stays).
    ConfUpdate = "conf.update", Reject: HasConf ReturnsConf ReturnsUnit;

    /// `job.validate`: a submitted job before it is accepted. State NEW. A refusal goes to the
    /// submitter; nothing of the job is kept.
    JobValidate = "job.validate", Reject:
        HasJob ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

    /// `job.dependency.SCHEME`: one call for each dependency of that scheme that a job asks for,
    /// after validation, and again after a restart for jobs still in DEPEND. State NEW or DEPEND.
    JobDependency = "job.dependency.*", Reject:
        HasJob HasDependency ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

    /// `job.new`: a job was accepted, or is introduced after a restart or when the plugin is
    /// loaded. Any state but INACTIVE. The place to count jobs and to subscribe to their events.
    JobNew = "job.new", Log:
        HasJob ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.state.depend`: the job is accepted and waits for its dependencies. The last place to
    /// add one.
    JobStateDepend = "job.state.depend", Log:
        HasJob HasPrevState ReturnsUnit ReturnsFault ReturnsAnnotations AllowsDependencyAdd
        AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.priority`: the job needs a priority. It waits here until one is set.
    JobStatePriority = "job.state.priority", Log:
        HasJob HasPrevState ReturnsUnit ReturnsFault ReturnsAnnotations ReturnsPriority
        AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.sched`: the job has a priority and waits for resources.
    JobStateSched = "job.state.sched", Log:
        HasJob HasPrevState ReturnsUnit ReturnsFault ReturnsAnnotations
        AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.run`: the job has resources and will be started when no prolog is open.
    JobStateRun = "job.state.run", Log:
        HasJob HasPrevState HasResources ReturnsUnit ReturnsFault ReturnsAnnotations
        AllowsProlog AllowsFatal;

    /// `job.state.cleanup`: the job has ended; its resources are freed when no epilog is open.
    JobStateCleanup = "job.state.cleanup", Log:
        HasJob HasPrevState ReturnsUnit ReturnsFault ReturnsAnnotations AllowsEpilog AllowsFatal;

    /// `job.state.inactive`: nothing of the job is outstanding; its log is closed.
    JobStateInactive = "job.state.inactive", Log:
        HasJob HasPrevState ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.event.NAME`: each event of that name, for the jobs that the plugin subscribed to with
    /// [`Cx::subscribe`](crate::plugin::Cx::subscribe).
    JobEvent = "job.event.*", Log:
        HasJob HasEntry ReturnsUnit ReturnsFault AllowsFatal;

    /// `job.priority.get`: the manager asks for the job's priority again, in PRIORITY or SCHED.
    JobPriorityGet = "job.priority.get", Log:
        HasJob ReturnsFault ReturnsPriority AllowsFatal;
}

/// Not a topic of `#[on]`: the context of what comes back to a plugin later, from a timer or from
/// work outside the manager's thread. There is no current job then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later;

impl TopicSet for Later {}
impl AllowsFatal for Later {}
