//! The topics of the job manager, declared once for `jobtap-sdk` and `jobtap-macros`.
//!
//! Both need them: `#[on("job.validate")]` checks the string and finds the topic's type while it is
//! expanded, and `jobtap-sdk` declares these types with their capabilities. A crate of macros can export nothing
//! but macros, and `jobtap-sdk` depends on it, so what they share is in this crate, below both. For the same reason
//! the rule of "did you mean" is here.
//!
//! Nothing but these two crates should use this one; `jobtap_core::topic` is the public face of the table, and
//! `jobtap_core::suggest` is that of [`suggest`].

pub mod suggest;

/// Calls the macro `$then` with the whole table, as `topics { .. } events { .. }`.
///
/// A row reads `Type = "string", policy: capabilities;` with the documentation of the type above it:
///
/// - `Type` is the type in `jobtap_core::topic`, `"string"` what `#[on]` takes. A family is written with `*`, and
///   followed by a name in brackets that serves as its example in messages.
/// - The policy is a variant of `jobtap_core::topic::OnFailure`: what happens to a job when a handler
///   fails. `async` follows where a handler may be `async`, since something waits for its answer.
/// - The capabilities are traits of `jobtap_core::topic`.
///
/// The rows of `events` are members of `job.event.*` with capabilities of their own. They share the
/// policy of their family.
///
/// The first line of the documentation is also the row of the guide's table of topics: keep it to the string, a
/// colon, and when the topic is called.
#[macro_export]
macro_rules! topics {
    ($then:ident) => {
        $then! {
        topics {
            /// `conf.update`: the instance's configuration, once when the plugin is loaded and at each
            /// change. A refusal fails the load, or the reload, which leaves the old configuration in effect.
            ConfUpdate = "conf.update", Reject: HasConf HasOwnConf ReturnsConf ReturnsUnit;

            /// `slurm.job_submit`: a job is to be submitted, and doesn't exist yet. Its description is read and
            /// changed in Slurm's terms, before queues, defaults and checks. A refusal goes to the submitter.
            SlurmJobSubmit = "slurm.job_submit", Reject, async:
                HasDescriptor HasSubmitUid HasPartitions ReturnsUnit ReturnsSlurmError AllowsUserMessage;

            /// `job.create`: a job was submitted, before it is checked. Also called for existing jobs after
            /// a restart or when the plugin is loaded, where a refusal is only logged. Use it to set up
            /// what other handlers of the plugin expect of every job.
            JobCreate = "job.create", Reject: HasJob HasActiveJob ReturnsVerdict ReturnsUnit;

            /// `job.validate`: a submitted job before it is accepted. State NEW. A refusal goes to the
            /// submitter, and the job is not stored. Called again with the changed jobspec when a user
            /// requests an update that isn't marked [`Update::validated`](crate::plugin::Update::validated).
            JobValidate = "job.validate", Reject, async:
                HasJob HasActiveJob ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

            /// `job.dependency.SCHEME`: once for each dependency of this scheme that a job requests,
            /// after validation, and again after a restart for jobs in DEPEND. State NEW or DEPEND.
            JobDependency = "job.dependency.*" ["afterok"], Reject, async:
                HasJob HasActiveJob HasDependency ReturnsVerdict ReturnsUnit AllowsDependencyAdd AllowsJobspecUpdate;

            /// `job.new`: a job was accepted, or exists after a restart or when the plugin is loaded. Any
            /// state but INACTIVE. Use it to count jobs and to subscribe to their events.
            JobNew = "job.new", Log:
                HasJob HasActiveJob ReturnsUnit ReturnsFault ReturnsAnnotations AllowsJobspecUpdate;

            /// `job.state.depend`: the job is accepted and waits for its dependencies. No dependency can be
            /// added later.
            JobStateDepend = "job.state.depend", Log, async:
                HasJob HasActiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations
                AllowsDependencyAdd AllowsJobspecUpdate AllowsProlog AllowsFatal;

            /// `job.state.priority`: the job needs a priority. It stays in this state until one is set.
            JobStatePriority = "job.state.priority", Log, async:
                HasJob HasActiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations ReturnsPriority
                AllowsJobspecUpdate AllowsProlog AllowsFatal;

            /// `job.state.sched`: the job has a priority and waits for resources. A handler that returns
            /// resources allocates them to the job in place of the scheduler.
            JobStateSched = "job.state.sched", Log:
                HasJob HasActiveJob HasPendingJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations ReturnsResources
                AllowsJobspecUpdate AllowsProlog AllowsFatal;

            /// `job.state.run`: the job has resources and will be started when no prolog is open.
            JobStateRun = "job.state.run", Log, async:
                HasJob HasActiveJob HasPrevState HasCause HasResources ReturnsUnit ReturnsFault ReturnsAnnotations
                AllowsProlog AllowsFatal;

            /// `slurm.prolog_slurmctld`: the job has its resources, and `job.state.run` has been called. Slurm's
            /// PrologSlurmctld: no node of the job is touched before it has ended.
            SlurmPrologSlurmctld = "slurm.prolog_slurmctld", Log, async:
                HasJob HasActiveJob HasResources ReturnsUnit ReturnsEnd;

            /// `slurm.prolog`: once for each node of the job, after the prologs of `slurm.prolog_slurmctld`. Slurm's
            /// Prolog: the tasks start when those of all nodes have ended.
            SlurmProlog = "slurm.prolog", Log, async:
                HasJob HasActiveJob HasResources HasNode ReturnsUnit ReturnsEnd;

            /// `job.state.cleanup`: the job has finished; its resources are freed when no epilog is open.
            JobStateCleanup = "job.state.cleanup", Log, async:
                HasJob HasActiveJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations AllowsEpilog
                AllowsFatal;

            /// `slurm.epilog_slurmctld`: the job's tasks have exited, or it had none. Slurm's EpilogSlurmctld: the
            /// resources are freed when it has ended.
            SlurmEpilogSlurmctld = "slurm.epilog_slurmctld", Log, async:
                HasJob HasActiveJob HasResources ReturnsUnit ReturnsEnd;

            /// `slurm.epilog`: once for each node of the job, at the same time. Slurm's Epilog.
            SlurmEpilog = "slurm.epilog", Log, async:
                HasJob HasActiveJob HasResources HasNode ReturnsUnit ReturnsEnd;

            /// `job.state.inactive`: the job is inactive; its eventlog has ended.
            JobStateInactive = "job.state.inactive", Log:
                HasJob HasPrevState HasCause ReturnsUnit ReturnsFault ReturnsAnnotations;

            /// `job.state.*`: every change of state for which the plugin has no handler of its own.
            JobState = "job.state.*", Log:
                HasJob HasPrevState HasCause HasMember ReturnsUnit ReturnsFault ReturnsAnnotations;

            /// `job.event.NAME`: each event of that name, for the jobs that the plugin subscribed to with
            /// [`Cx::subscribe`](crate::plugin::Cx::subscribe). State NEW too, if it subscribed then.
            JobEvent = "job.event.*" ["start"], Log:
                HasJob HasActiveJob HasEntry ReturnsUnit ReturnsFault;

            /// `job.priority.get`: the priority of a job in PRIORITY or SCHED is computed again.
            JobPriorityGet = "job.priority.get", Log:
                HasJob HasActiveJob HasPendingJob ReturnsFault ReturnsPriority AllowsFatal;

            /// `slurm.job_modify`: a user requests a change of a job, in Slurm's terms: of its jobspec, or of its
            /// urgency, which is Slurm's `priority`. Called before `job.update.KEY`.
            SlurmJobModify = "slurm.job_modify", Reject, async:
                HasJob HasActiveJob HasDescriptor HasSubmitUid HasPartitions HasJobRecord ReturnsUnit
                ReturnsSlurmError AllowsUserMessage;

            /// `job.update.KEY`: a user requests a change of this key of the jobspec, such as
            /// `job.update.attributes.system.duration`. A key that no plugin handles can't be changed.
            JobUpdateKey = "job.update.*" ["attributes.system.duration"], Reject: HasJob HasActiveJob HasUpdateRequest ReturnsVerdict ReturnsUpdate;

            /// `job.update`: a job's jobspec was changed, by a plugin or at a user's request. Any state
            /// before CLEANUP, including NEW.
            JobUpdate = "job.update", Log:
                HasJob HasActiveJob HasUpdates ReturnsUnit ReturnsFault ReturnsAnnotations AllowsJobspecUpdate;

            /// `job.inactive-add`: the job has become inactive; after a restart, and when the plugin is
            /// loaded, also for each inactive job.
            JobInactiveAdd = "job.inactive-add", Log: HasJob ReturnsUnit ReturnsFault ReturnsAnnotations;

            /// `job.destroy`: the last call for the job but for its purge: after `job.inactive-add`, or
            /// after it was rejected. The counterpart of `job.create`.
            JobDestroy = "job.destroy", Log: HasJob ReturnsUnit ReturnsFault;

            /// `job.inactive-remove`: an inactive job is purged.
            JobInactiveRemove = "job.inactive-remove", Log: HasJob ReturnsUnit ReturnsFault;

            /// `job.*`: every topic about a job for which the plugin has no handler of its own. Its handler
            /// decides nothing, and does not make a dependency scheme or an update key supported.
            JobAny = "job.*", Log: HasJob HasMember ReturnsUnit;

            /// `allocation.plan`: an elastic instance decides which allocations it asks for and which it gives back, at
            /// most once a second. The last plugin of the stack that returns a plan decides.
            AllocationPlan = "allocation.plan", Log: HasDemand ReturnsPlan ReturnsFault;

            /// `plugin.query`: `jobtap plugin query NAME` was called.
            PluginQuery = "plugin.query", Reject: ReturnsQuery ReturnsQueryFailure;

            /// `unload`: the plugin is about to be removed. Not called when the manager stops.
            Unload = "unload", Log: ReturnsUnit ReturnsFault;
        }
        events {
            /// `job.event.alloc`: the job got its resources; `job.state.run` is called right after it.
            JobEventAlloc = "job.event.alloc":
                HasJob HasActiveJob HasEntry HasResources ReturnsUnit ReturnsFault AllowsProlog AllowsFatal;

            /// `job.event.finish`: all tasks of the job have exited, also after it was canceled.
            JobEventFinish = "job.event.finish":
                HasJob HasActiveJob HasEntry ReturnsUnit ReturnsFault AllowsEpilog AllowsFatal;

            /// `job.event.free`: the job's resources were freed. A plugin that needs them first, for example
            /// to clean them, retains them. After a restart it is called again for each job, active or
            /// inactive, whose resources the plugin retained.
            JobEventFree = "job.event.free": HasJob HasEntry ReturnsUnit ReturnsFault AllowsRetain;

            /// `job.event.clean`: the job's last event.
            JobEventClean = "job.event.clean": HasJob HasEntry ReturnsUnit ReturnsFault;

            /// `job.event.*`: each event for which the plugin has no handler of its own, including the
            /// last.
            JobEventAny = "job.event.*": HasJob HasEntry ReturnsUnit ReturnsFault;
        }
        }
    };
}

/// What the macros know about a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// The string that `#[on]` takes; a family is written with `*`.
    pub name: &'static str,
    /// The topic's type in `jobtap_core::topic`.
    pub type_name: &'static str,
    /// A member of the family, where `*` stands for a name that handlers choose.
    pub example: Option<&'static str>,
    /// Whether a handler may be `async`.
    pub may_be_async: bool,
}

macro_rules! names {
    (
        topics { $(
            $(#[$_doc:meta])*
            $name:ident = $string:literal $([$example:literal])?, $_policy:ident $(, $async:ident)?:
            $($_capability:ident)*;
        )* }
        events { $(
            $(#[$_event_doc:meta])*
            $event:ident = $event_string:literal: $($_event_capability:ident)*;
        )* }
    ) => {
        /// Every topic of the job manager, in the order of a job's life.
        pub const TOPICS: &[Topic] = &[$(
            Topic {
                name: $string,
                type_name: stringify!($name),
                example: names!(@first $($example)?),
                may_be_async: names!(@is $($async)?),
            },
        )*];

        /// The members of `job.event.*` with capabilities of their own.
        pub const EVENT_TOPICS: &[Topic] = &[$(
            Topic {
                name: $event_string,
                type_name: stringify!($event),
                example: None,
                may_be_async: false,
            },
        )*];
    };
    (@first) => { None };
    (@first $example:literal) => { Some($example) };
    (@is) => { false };
    (@is async) => { true };
}

topics!(names);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn strings_and_types_are_unique() {
        let mut types = HashSet::new();
        assert!(TOPICS.iter().chain(EVENT_TOPICS).all(|topic| types.insert(topic.type_name)));
        for rows in [TOPICS, EVENT_TOPICS] {
            let mut names = HashSet::new();
            assert!(rows.iter().all(|topic| names.insert(topic.name)));
        }
    }

    #[test]
    fn a_family_has_an_example() {
        for topic in TOPICS.iter().filter(|topic| topic.example.is_some()) {
            assert!(topic.name.ends_with(".*"), "{topic:?}");
        }
        let families: Vec<&str> =
            TOPICS.iter().filter(|topic| topic.example.is_some()).map(|topic| topic.name).collect();
        assert_eq!(families, ["job.dependency.*", "job.event.*", "job.update.*"]);
    }

    #[test]
    fn event_topics_are_members_of_their_family() {
        assert!(EVENT_TOPICS.iter().all(|topic| topic.name.starts_with("job.event.")));
    }
}
