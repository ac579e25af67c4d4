//! Capabilities: what a topic offers to its handlers, and what it lets them return and call.
//!
//! Each trait carries the compile error that an author reads when a topic lacks it.

use super::TopicSet;
use super::sets::for_tuples;

macro_rules! capabilities {
    ($( $(#[$doc:meta])* $name:ident : $message:literal, $label:literal, $note:literal; )*) => {
        $(
            $(#[$doc])*
            #[diagnostic::on_unimplemented(message = $message, label = $label, note = $note)]
            pub trait $name: TopicSet {}
            for_tuples!($name);
        )*
    };
}

capabilities! {
    /// The topic is about a job: `&Job`, `&Jobspec`, `JobInfo` can be taken.
    HasJob:
        "there is no job in `{Self}`",
        "this topic is not about a job",
        "take `&Job` in a handler of a `job.*` topic; elsewhere look a job up by its id: `cx.job(id)?`";

    /// The job has resources whenever this topic fires: `&ResourceSet` can be taken.
    HasResources:
        "a job has no resources yet in `{Self}`",
        "resources are known from `job.state.run` on",
        "take `Option<&ResourceSet>` for a job that may have some, or handle `job.state.run`";

    /// The topic comes with a change of state: `PrevState` can be taken.
    HasPrevState:
        "`{Self}` is no change of state, so there is no previous one",
        "only `job.state.*` topics have a previous state",
        "the present state is `job.state()`";

    /// The topic comes with an event: `&EventEntry` can be taken.
    HasEntry:
        "there is no event entry in `{Self}`",
        "only `job.event.*` topics come with an event",
        "subscribe to the job with `cx.subscribe(job)` and handle `job.event.NAME`";

    /// The topic is about one dependency: `&Dependency` can be taken.
    HasDependency:
        "there is no dependency in `{Self}`",
        "only `job.dependency.SCHEME` is called for a dependency",
        "all dependencies of a job are in `job.jobspec().dependencies()`";

    /// The topic carries the instance's configuration: `InstanceConf<C>` can be taken.
    HasConf:
        "there is no configuration in `{Self}`",
        "configuration comes with `#[init]` and `conf.update`",
        "keep what you need of it in the plugin's own fields";

    /// The plugin's own table of the configuration: `Conf<C>` can be taken. No topic has it.
    HasOwnConf:
        "a plugin's own configuration doesn't come with `{Self}`",
        "`Conf` is a parameter of `#[init]`",
        "take it in `#[init]` and keep it in a field; `conf.update` brings the whole instance's: `InstanceConf<C>`";

    /// A handler may return nothing.
    ReturnsUnit:
        "a handler of `{Self}` must return a value",
        "this topic needs an answer",
        "return `Priority`: `Priority::new(n)`, `Priority::UNAVAILABLE` or `Priority::UNCHANGED`";

    /// A handler may return a priority.
    ReturnsPriority:
        "a priority can't be returned from a handler of `{Self}`",
        "only `job.state.priority` and `job.priority.get` ask for a priority",
        "call `cx.reprioritize(job, priority)` to set one from elsewhere";

    /// A handler may return annotations for the job.
    ReturnsAnnotations:
        "annotations can't be returned from a handler of `{Self}`",
        "this topic takes no annotations",
        "return them from `job.new` or a `job.state.*` topic";

    /// A handler may refuse the job: `Result<(), Reject>`.
    ReturnsVerdict:
        "a job can't be rejected in `{Self}`",
        "the job was accepted before, or isn't there yet",
        "reject in `job.validate` or `job.dependency.SCHEME`; end an accepted job with `cx.raise(job, Exception::fatal(..))`";

    /// A handler may fail with a `HandlerError`, which is logged; the job goes on.
    ReturnsFault:
        "a handler of `{Self}` can't fail with a `HandlerError`",
        "a failure here is an answer to somebody, not a line in the log",
        "return `Result<(), Reject>` in a gate such as `job.validate`, `Result<(), ConfError>` in `conf.update`";

    /// A handler may refuse the configuration: `Result<(), ConfError>`.
    ReturnsConf:
        "a configuration can't be refused in `{Self}`",
        "only `conf.update` and `#[init]` see a configuration",
        "check it in `#[init]` or in a `conf.update` handler";

    /// A dependency may be added to the current job.
    AllowsDependencyAdd:
        "a dependency can't be added from `{Self}`",
        "the job may be past DEPEND",
        "add dependencies in `job.validate`, `job.dependency.SCHEME` or, at the last, `job.state.depend`";

    /// A prolog may be started for the current job.
    AllowsProlog:
        "a prolog can't be started from `{Self}`",
        "a prolog belongs to an accepted job that hasn't started",
        "start it in `job.state.run`, where the job has its resources";

    /// An epilog may be started for the current job.
    AllowsEpilog:
        "an epilog can't be started from `{Self}`",
        "an epilog belongs to a job in CLEANUP",
        "start it in `job.state.cleanup`";

    /// The jobspec of the current job may be changed.
    AllowsJobspecUpdate:
        "the jobspec can't be changed from `{Self}`",
        "a plugin may change a jobspec only until the job is allocated",
        "change it in `job.validate`, or in `job.state.depend`, `.priority` or `.sched`";

    /// A fatal exception may be raised on the current job.
    AllowsFatal:
        "the current job can't be ended by an exception in `{Self}`",
        "the job isn't accepted yet, or is over",
        "return `Err(Reject::new(..))` to refuse a job that isn't accepted yet";
}
