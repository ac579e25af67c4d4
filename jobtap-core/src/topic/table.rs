//! The topics of the job manager, one type each.

use super::caps::*;
use super::{OnFailure, Topic, TopicInfo, TopicSet, WithoutJob};

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
                const ID: TopicId = TopicId::$name;
            }
            $( impl $cap for $name {} )*
            // So that `cx.call(&JobNew)` is told that it isn't an own topic, and nothing more.
            #[diagnostic::do_not_recommend]
            impl WithoutJob for $name {}
        )*

        /// The places of the topics in [`TOPICS`].
        enum Place {
            $( $name, )*
            Own,
        }

        // Named as the types are: `TopicId::JobNew` is the value of `JobNew`.
        #[allow(non_upper_case_globals)]
        impl TopicId {
            $(
                #[doc = concat!("`", $string, "`")]
                pub const $name: TopicId = TopicId(Place::$name as u8);
            )*
            /// A topic of an author's own, known by its name.
            pub const Own: TopicId = TopicId(Place::Own as u8);
        }

        /// Every topic of the job manager, in the order of a job's life.
        pub const TOPICS: &[TopicInfo] = &[
            $( TopicInfo {
                name: $string,
                type_name: stringify!($name),
                on_failure: OnFailure::$policy,
                capabilities: &[$(stringify!($cap)),*],
            }, )*
        ];
    };
}

/// Events that are topics of their own, since more, or less, is possible there.
macro_rules! event_topics {
    ($( $(#[$doc:meta])* $name:ident = $string:literal: $($cap:ident)*; )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name;

            impl TopicSet for $name {}
            impl Topic for $name {
                const NAME: &'static str = JobEvent::NAME;
                const ON_FAILURE: OnFailure = JobEvent::ON_FAILURE;
                const ID: TopicId = JobEvent::ID;
            }
            $( impl $cap for $name {} )*
            #[diagnostic::do_not_recommend]
            impl WithoutJob for $name {}
        )*

        /// Members of `job.event.NAME` with capabilities of their own.
        pub const EVENT_TOPICS: &[TopicInfo] = &[
            $( TopicInfo {
                name: $string,
                type_name: stringify!($name),
                on_failure: JobEvent::ON_FAILURE,
                capabilities: &[$(stringify!($cap)),*],
            }, )*
        ];
    };
}

event_topics! {
    /// `job.event.alloc`: the job got its resources, as `job.state.run` right after it.
    JobEventAlloc = "job.event.alloc":
        HasJob HasLiveJob HasEntry HasResources ReturnsUnit ReturnsFault AllowsProlog AllowsFatal;

    /// `job.event.finish`: the job's tasks have ended. After a cancelled job's tasks, too.
    JobEventFinish = "job.event.finish":
        HasJob HasLiveJob HasEntry ReturnsUnit ReturnsFault AllowsEpilog AllowsFatal;

    /// `job.event.free`: the job gives its resources back to the scheduler. A plugin that has something to
    /// do on them first keeps them. After a restart it is called again for a job whose resources the
    /// plugin still kept, which may be over.
    JobEventFree = "job.event.free": HasJob HasEntry ReturnsUnit ReturnsFault AllowsKeep;

    /// `job.event.clean`: the job's last event.
    JobEventClean = "job.event.clean": HasJob HasEntry ReturnsUnit ReturnsFault;

    /// `job.event.*`: each event for which the plugin has no handler of its own, the last one
    /// included.
    JobEventAny = "job.event.*": HasJob HasEntry ReturnsUnit ReturnsFault;
}

/// The topics of the job manager as values, in the order of [`TOPICS`].
///
/// Not an enum: the compiler shortens a path in its messages only when no other type or variant has
/// the name, and an author is to read `JobNew` there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(u8);

impl std::fmt::Debug for TopicId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl TopicId {
    /// How many topics the job manager has.
    pub const COUNT: usize = TopicId::Own.index();

    /// Its place in [`TOPICS`]; that of an author's own is behind the last.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// What is known of the topic; none of an author's own.
    pub fn info(self) -> Option<&'static TopicInfo> {
        TOPICS.get(self.index())
    }

    /// The topic's string.
    pub fn name(self) -> &'static str {
        self.info().map_or("an own topic", |info| info.name)
    }

    /// What becomes of a job when a handler fails here.
    pub fn on_failure(self) -> OnFailure {
        self.info().map_or(OnFailure::Log, |info| info.on_failure)
    }

    /// Whether `job.*` stands for this topic too.
    pub fn is_job_topic(self) -> bool {
        self.name().starts_with("job.")
    }

    /// Whether `job.state.*` stands for this topic too.
    pub fn is_state_topic(self) -> bool {
        self.name().starts_with("job.state.")
    }
}

topics! {
    /// `conf.update`: the instance's configuration, once when the plugin is loaded and at each
    /// change. A refusal fails the load, or the reload (the old configuration stays).
    ConfUpdate = "conf.update", Reject: HasConf ReturnsConf ReturnsUnit;

    /// `job.create`: the job exists, before anything was checked. Also called for jobs introduced
    /// after a restart or when the plugin is loaded, where a refusal is only logged. The place to
    /// set up what other handlers of the plugin expect of every job.
    JobCreate = "job.create", Reject: HasJob HasLiveJob ReturnsVerdict ReturnsUnit;

    /// `job.validate`: a submitted job before it is accepted. State NEW. A refusal goes to the
    /// submitter; nothing of the job is kept. Called again with the changed jobspec when a user asks
    /// for an update that isn't marked [`Update::validated`](crate::plugin::Update::validated).
    JobValidate = "job.validate", Reject:
        HasJob HasLiveJob ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

    /// `job.dependency.SCHEME`: one call for each dependency of that scheme that a job asks for,
    /// after validation, and again after a restart for jobs still in DEPEND. State NEW or DEPEND.
    JobDependency = "job.dependency.*", Reject:
        HasJob HasLiveJob HasDependency ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

    /// `job.new`: a job was accepted, or is introduced after a restart or when the plugin is
    /// loaded. Any state but INACTIVE. The place to count jobs and to subscribe to their events.
    JobNew = "job.new", Log:
        HasJob HasLiveJob ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.state.depend`: the job is accepted and waits for its dependencies. The last place to
    /// add one.
    JobStateDepend = "job.state.depend", Log:
        HasJob HasLiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations
        AllowsDependencyAdd AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.priority`: the job needs a priority. It waits here until one is set.
    JobStatePriority = "job.state.priority", Log:
        HasJob HasLiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations ReturnsPriority
        AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.sched`: the job has a priority and waits for resources. A handler that returns
    /// resources gives the job these, past the scheduler.
    JobStateSched = "job.state.sched", Log:
        HasJob HasLiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations ReturnsResources
        AllowsJobspecUpdate AllowsProlog AllowsFatal;

    /// `job.state.run`: the job has resources and will be started when no prolog is open.
    JobStateRun = "job.state.run", Log:
        HasJob HasLiveJob HasPrevState HasCause HasResources ReturnsUnit ReturnsFault ReturnsAnnotations
        AllowsProlog AllowsFatal;

    /// `job.state.cleanup`: the job has ended; its resources are freed when no epilog is open.
    JobStateCleanup = "job.state.cleanup", Log:
        HasJob HasLiveJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations AllowsEpilog
        AllowsFatal;

    /// `job.state.inactive`: nothing of the job is outstanding; its log is closed.
    JobStateInactive = "job.state.inactive", Log:
        HasJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.state.*`: every change of state for which the plugin has no handler of its own.
    JobState = "job.state.*", Log:
        HasJob HasPrevState HasCause HasMember ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.event.NAME`: each event of that name, for the jobs that the plugin subscribed to with
    /// [`Cx::subscribe`](crate::plugin::Cx::subscribe). In NEW too, for one that subscribed so early.
    JobEvent = "job.event.*", Log:
        HasJob HasLiveJob HasEntry ReturnsUnit ReturnsFault;

    /// `job.priority.get`: the manager asks for the job's priority again, in PRIORITY or SCHED.
    JobPriorityGet = "job.priority.get", Log:
        HasJob HasLiveJob HasPendingJob ReturnsFault ReturnsPriority AllowsFatal;

    /// `job.update.KEY`: a user asks to change this key of the jobspec, such as
    /// `job.update.attributes.system.duration`. A key that no plugin handles can't be changed.
    JobUpdateKey = "job.update.*", Reject: HasJob HasLiveJob HasUpdateRequest ReturnsVerdict ReturnsUpdate;

    /// `job.update`: a job's jobspec was changed, by a plugin or at a user's request. Any state
    /// before CLEANUP, NEW included.
    JobUpdate = "job.update", Log:
        HasJob HasLiveJob HasUpdates ReturnsUnit ReturnsFault ReturnsAnnotations AllowsJobspecUpdate;

    /// `job.inactive-add`: the job joined the inactive jobs; after a restart, and when the plugin is
    /// loaded, also for each that is there already.
    JobInactiveAdd = "job.inactive-add", Log: HasJob ReturnsUnit ReturnsFault ReturnsAnnotations;

    /// `job.destroy`: the last call for the job before it is only history: after
    /// `job.inactive-add`, or after it was rejected. The counterpart of `job.create`.
    JobDestroy = "job.destroy", Log: HasJob ReturnsUnit ReturnsFault;

    /// `job.inactive-remove`: an inactive job is purged.
    JobInactiveRemove = "job.inactive-remove", Log: HasJob ReturnsUnit ReturnsFault;

    /// `job.*`: every topic about a job for which the plugin has no handler of its own. It watches:
    /// it decides nothing, and does not make a dependency scheme or an update key supported.
    JobAny = "job.*", Log: HasJob HasMember ReturnsUnit;

    /// `plugin.query`: `jobtap plugin query NAME` asks what the plugin has to tell of itself.
    PluginQuery = "plugin.query", Reject: ReturnsQuery ReturnsQueryFailure;

    /// `unload`: the plugin is about to be removed. Not called at the manager's end, after which
    /// everything goes on.
    Unload = "unload", Log: ReturnsUnit ReturnsFault;
}

/// Not a topic of `#[on]`: the context of what comes back to plugin `P` later, from a timer or from
/// work outside the manager's thread. There is no current job then.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Site;
/// fn look(site: &mut Site, id: JobId, cx: &Cx<'_, Later<Site>>) -> Result<(), CallError> {
///     let job = cx.active_job(id)?;
///     Ok(cx.memo(job, "site", "seen again")?)
/// }
/// ```
pub struct Later<P = ()>(std::marker::PhantomData<fn(P)>);

impl<P: 'static> TopicSet for Later<P> {}

/// Not a topic of `#[on]`: the context of a service under `#[service]`. There is no current job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service;

impl TopicSet for Service {}
impl Topic for Service {
    const NAME: &'static str = "service";
    const ON_FAILURE: OnFailure = OnFailure::Reject;
    const ID: TopicId = TopicId::Own;
}
impl HasRequest for Service {}
impl ReturnsReply for Service {}
