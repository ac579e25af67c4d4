//! Capabilities: which parameters a topic has, and what it lets handlers return and call.
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

    /// The job is never inactive at this topic: calls take the handler's `&Job`.
    HasLiveJob:
        "the job is over in `{Self}`, or may be",
        "nothing can be asked for a job that is over",
        "handle a topic before its end, such as `job.state.cleanup`; on another job call with `cx.active_job(id)?`";

    /// The job never has resources at this topic: calls for pending jobs take it.
    HasPendingJob:
        "the job may have its resources already in `{Self}`, or be over, or not be accepted yet",
        "a job that waits for its resources is asked for",
        "do this in `job.state.depend`, `.priority` or `.sched`; on another job with `cx.active_job(id)?` and `job.pending()`";

    /// The job always has resources at this topic: `&ResourceSet` can be taken.
    HasResources:
        "a job may have no resources in `{Self}`",
        "only `job.state.run` and `job.event.alloc` are sure that it has some",
        "take `Option<&ResourceSet>` for a job that may have some, or handle `job.state.run`";

    /// The topic is a change of state: `PrevState` can be taken.
    HasPrevState:
        "`{Self}` is no change of state, so there is no previous one",
        "only `job.state.*` topics have a previous state",
        "the present state is `job.state()`";

    /// The topic may come from an event: `Option<&EventEntry>` can be taken.
    HasCause:
        "`{Self}` never comes from an event",
        "only `job.state.*` topics may have an event behind them",
        "subscribe to the job with `cx.subscribe(job)` and handle `job.event.NAME`, where `&EventEntry` is the event";

    /// The topic comes with an event: `&EventEntry` can be taken.
    HasEntry:
        "there is no event entry in `{Self}`",
        "only `job.event.*` topics come with an event",
        "take `Option<&EventEntry>` in `job.state.*`; else subscribe to the job with `cx.subscribe(job)` and handle `job.event.NAME`";

    /// The topic is about one dependency: `&Dependency` can be taken.
    HasDependency:
        "there is no dependency in `{Self}`",
        "only `job.dependency.SCHEME` is called for a dependency",
        "all dependencies of a job are in `job.jobspec().dependencies()`";

    /// The topic reports changes of a jobspec: `Updates` can be taken.
    HasUpdates:
        "there are no updates in `{Self}`",
        "only `job.update` is called after a jobspec was changed",
        "handle `job.update`; a user's request for a change is `&UpdateRequest` in `job.update.KEY`";

    /// The topic is about a user's request for a change: `&UpdateRequest` can be taken.
    HasUpdateRequest:
        "nobody asks for an update in `{Self}`",
        "only `job.update.KEY` is called for a request",
        "handle `job.update.KEY`, as in `#[on(\"job.update.attributes.system.duration\")]`";

    /// The topic stands for several: `JobTopic` can be taken, which names the one that is called.
    HasMember:
        "`{Self}` is one topic, not several",
        "only `job.state.*` and `job.*` stand for several topics",
        "nothing has to be asked here: the handler is called for this topic alone";

    /// A client asks for something: `Request<Q>`, `Caller` and `Responder<R>` can be taken.
    HasRequest:
        "there is no request in `{Self}`",
        "only a function under `#[service]` answers requests",
        "mark the function `#[service(\"name\")]` instead of `#[on(..)]`";

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

    /// Values of the topic can be taken by value. No topic has it: a handler borrows them.
    HasOwned:
        "a handler of `{Self}` can only borrow this",
        "the manager keeps it",
        "take a reference: `&Job`, `&Jobspec`, `&EventEntry`, `&UpdateRequest`; an `async` handler takes `JobInfo`";

    /// A handler may return nothing.
    ReturnsUnit:
        "a handler of `{Self}` must return a value",
        "this topic needs an answer",
        "`job.priority.get` returns `Priority`, `job.update.KEY` returns `Update`, `plugin.query` returns `QueryData`, a topic of your own its `answer`";

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
        "not a gate: nothing is accepted or refused here",
        "reject in `job.create`, `job.validate`, `job.dependency.SCHEME` or `job.update.KEY`; end an accepted job with `cx.fail(kind, note)`; a topic of your own fails with `HandlerError`";

    /// A handler may fail with a `HandlerError`, which is logged; the job goes on.
    ReturnsFault:
        "a handler of `{Self}` can't fail with a `HandlerError`",
        "a failure here is an answer to somebody, not a line in the log",
        "return `Result<(), Reject>` in a gate such as `job.validate`, `Result<(), ConfError>` in `conf.update`";

    /// A handler that is not `async` may fail with `PrologFailed` or `EpilogFailed`. No topic has it, since
    /// no prolog or epilog is held for such a handler.
    ReturnsEnd:
        "`PrologFailed` and `EpilogFailed` are for `async` handlers, and this one of `{Self}` isn't",
        "no prolog or epilog is held for this handler",
        "write `async fn`; or fail with `HandlerError`, and hold the job with `cx.prolog_start(..)` or `cx.epilog_start(..)`";

    /// A handler may allocate resources to the job: `ResourceSet`.
    ReturnsResources:
        "resources can't be given to a job in `{Self}`",
        "only a job in SCHED waits for resources",
        "return them from `job.state.sched`";

    /// A handler decides about a user's change of the jobspec: `Update`.
    ReturnsUpdate:
        "an update can't be decided in `{Self}`",
        "only `job.update.KEY` asks whether a key may be changed",
        "handle `job.update.KEY`, as in `#[on(\"job.update.attributes.system.duration\")]`";

    /// A handler returns the plugin's own data: `QueryData`.
    ReturnsQuery:
        "nobody asks for query data in `{Self}`",
        "only `plugin.query` is answered with data",
        "handle `plugin.query`";

    /// A handler may fail with a `HandlerError`, which is the answer to the query.
    ReturnsQueryFailure:
        "a handler of `{Self}` can't fail with a `HandlerError`",
        "a failure here is an answer to somebody, not a line in the log",
        "return `Result<(), Reject>` in a gate such as `job.validate`, `Result<(), ConfError>` in `conf.update`";

    /// A service answers with any `Serialize`.
    ReturnsReply:
        "`{Self}` is no service, so nothing can be replied",
        "only a function under `#[service]` answers requests",
        "mark the function `#[service(\"name\")]` instead of `#[on(..)]`";

    /// A handler may refuse the configuration: `Result<(), ConfError>`.
    ReturnsConf:
        "a configuration can't be refused in `{Self}`",
        "only `conf.update` and `#[init]` see a configuration",
        "check it in `#[init]` or in a `conf.update` handler";

    /// A dependency may be added to the current job.
    AllowsDependencyAdd:
        "a dependency can't be added from `{Self}`",
        "the job may be past DEPEND",
        "add dependencies in `job.validate`, `job.dependency.SCHEME` or, at the last, `job.state.depend`; to another job: `cx.dependency_add_to(pending, description)`";

    /// A prolog may be started for the current job.
    AllowsProlog:
        "a prolog can't be started from `{Self}`",
        "a prolog belongs to an accepted job that hasn't started",
        "start it in `job.state.run`, where the job has its resources";

    /// An epilog may be started for the current job.
    AllowsEpilog:
        "an epilog can't be started from `{Self}`",
        "an epilog belongs to a job in CLEANUP",
        "start it in `job.state.cleanup`; for another job: `cx.epilog_start_of(ending, description)`";

    /// Resources that the current job frees may be kept from the scheduler.
    AllowsKeep:
        "resources can't be kept from `{Self}`",
        "a job's resources are kept at the moment at which it frees them",
        "keep them in `job.event.free`, for jobs that were subscribed to with `cx.subscribe(job)`";

    /// The jobspec of the current job may be changed.
    AllowsJobspecUpdate:
        "the jobspec can't be changed from `{Self}`",
        "a plugin may change a jobspec only until the job is allocated",
        "change it in `job.validate`, or in `job.state.depend`, `.priority` or `.sched`; of another job: `cx.jobspec_update_of(pending, path, value)`";

    /// A fatal exception may be raised on the current job.
    AllowsFatal:
        "the current job can't be ended by an exception in `{Self}`",
        "there may be no job, or it may not be accepted yet, or be over",
        "return `Err(Reject::new(..))` in a gate; elsewhere end what is live: `cx.fail_job(cx.active_job(id)?, kind, note)`";
}
