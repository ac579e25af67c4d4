//! Capabilities of topics: what a handler can take as a parameter, what it can return, and what it can
//! call.
//!
//! Each trait carries the compile error that an author reads when a topic lacks the capability.

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
        "take `&Job` in a handler of a `job.*` topic; elsewhere look a job up by its id, `cx.job(id)?`, and read the plugin's data on it with `JobsData<'_, D>`; in `slurm.job_submit` the job doesn't exist yet: take `Descriptor<'_>`";

    /// The job is active whenever the topic is called: calls take the handler's `&Job`.
    HasActiveJob:
        "the job is inactive in `{Self}`, or may be",
        "no call can change an inactive job",
        "handle a topic before the job is inactive, such as `job.state.cleanup`; for another job take `cx.active_job(id)?`";

    /// The job is pending whenever the topic is called.
    HasPendingJob:
        "the job may have its resources already in `{Self}`, or be inactive, or not be accepted yet",
        "expected a pending job",
        "do this in `job.state.depend`, `.priority` or `.sched`; for another job take `cx.active_job(id)?` and `job.pending()`";

    /// The job has resources whenever the topic is called: `&ResourceSet` can be taken.
    HasResources:
        "a job may have no resources in `{Self}`",
        "a job has resources for certain in `job.state.run`, `job.event.alloc`, and Slurm's prologs and epilogs only",
        "take `Option<&ResourceSet>` for a job that may have some, or handle `job.state.run`";

    /// The topic is called for a change of state: `PrevState` can be taken.
    HasPrevState:
        "`{Self}` is not a change of state, so there is no previous state",
        "only `job.state.*` topics have a previous state",
        "the present state is `job.state()`";

    /// The topic may be called because of an event: `Option<&EventEntry>` can be taken.
    HasCause:
        "`{Self}` is never called because of an event",
        "only `job.state.*` topics may be called because of an event",
        "subscribe to the job with `cx.subscribe(job)` and handle `job.event.NAME`, where `&EventEntry` is the event";

    /// The topic is called for an event: `&EventEntry` can be taken.
    HasEntry:
        "there is no event entry in `{Self}`",
        "only `job.event.*` topics are called for an event",
        "take `Option<&EventEntry>` in `job.state.*`; else subscribe to the job with `cx.subscribe(job)` and handle `job.event.NAME`";

    /// The topic is about one dependency: `&Dependency` can be taken.
    HasDependency:
        "there is no dependency in `{Self}`",
        "only `job.dependency.SCHEME` is called for a dependency",
        "all dependencies of a job are in `job.jobspec().dependencies()`";

    /// The topic is called after a change of a jobspec: `Updates` can be taken.
    HasUpdates:
        "there are no updates in `{Self}`",
        "only `job.update` is called after a jobspec was changed",
        "handle `job.update`; a user's request for a change is `&UpdateRequest` in `job.update.KEY`";

    /// The topic is about a user's request to change a jobspec: `&UpdateRequest` can be taken.
    HasUpdateRequest:
        "there is no request for an update in `{Self}`",
        "only `job.update.KEY` is called for a request",
        "handle `job.update.KEY`, as in `#[on(\"job.update.attributes.system.duration\")]`";

    /// The topic is about a request in Slurm's terms: `Descriptor` and `JobDescriptor` can be taken.
    HasDescriptor:
        "there is no job description of Slurm's in `{Self}`",
        "only `slurm.job_submit` and `slurm.job_modify` have one",
        "read the job's `&Jobspec`, or handle `slurm.job_submit`";

    /// The topic is a user's request: `SubmitUid` can be taken.
    HasSubmitUid:
        "there is no user who makes a request in `{Self}`",
        "only `slurm.job_submit` and `slurm.job_modify` have one",
        "the user of a job is `job.userid()`; that of a request is `request.cred` in `job.update.KEY`, and `Caller` in a service";

    /// The topic has the queues in Slurm's terms: `Partitions` can be taken.
    HasPartitions:
        "there are no partitions in `{Self}`",
        "only `slurm.job_submit` and `slurm.job_modify` have them",
        "the queues of the instance are `cx.queues()`";

    /// The topic is about a change of a job in Slurm's terms: `&JobRecord` can be taken.
    HasJobRecord:
        "there is no job record of Slurm's in `{Self}`",
        "only `slurm.job_modify` has one",
        "take `&Job` in a handler of a `job.*` topic; in `slurm.job_submit` the job doesn't exist yet";

    /// The topic is called for each node of a job: `Node` can be taken.
    HasNode:
        "there is no single node in `{Self}`",
        "only `slurm.prolog` and `slurm.epilog` are called for each node",
        "the nodes of a job are in its `&ResourceSet`: `r.ranks()`, `r.nodelist()`";

    /// The topic stands for several: `JobTopic`, the one that is called, can be taken.
    HasMember:
        "`{Self}` is one topic, not several",
        "only `job.state.*` and `job.*` stand for several topics",
        "leave the parameter out: the handler is called for this topic only";

    /// The topic is a client's request: `Request<Q>`, `Caller` and `Responder<R>` can be taken.
    HasRequest:
        "there is no request in `{Self}`",
        "only a function under `#[service]` handles requests",
        "mark the function `#[service(\"name\")]` instead of `#[on(..)]`";

    /// The topic decides about allocations on demand: `&Demand` can be taken.
    HasDemand:
        "there is no demand for allocations in `{Self}`",
        "only `allocation.plan` has it",
        "handle `allocation.plan`, or look at pending jobs by `cx.active_jobs()`";

    /// The topic carries the instance's configuration: `InstanceConf<C>` can be taken.
    HasConf:
        "there is no configuration in `{Self}`",
        "only `#[init]` and `conf.update` have a configuration",
        "keep what you need of it in the plugin's own fields";

    /// The topic carries the plugin's own table: `Conf<C>` can be taken. No topic has this capability.
    HasOwnConf:
        "there is no configuration of the plugin's own in `{Self}`",
        "`Conf` is a parameter of `#[init]` and of `conf.update`",
        "take it in `#[init]` and keep it in a field; handle `conf.update` to follow its changes";

    /// The topic's job can be taken by value. No topic has this capability.
    HasOwned:
        "a handler of `{Self}` can only borrow this",
        "the manager owns it",
        "take a reference: `&Job`, `&Jobspec`, `&EventEntry`, `&UpdateRequest`, `&Demand`; an `async` handler takes `JobInfo`";

    /// A handler may return nothing.
    ReturnsUnit:
        "a handler of `{Self}` must return a value",
        "this topic needs a return value",
        "`job.priority.get` returns `Priority`, `job.update.KEY` returns `Update`, `allocation.plan` returns `Plan`, `plugin.query` returns `QueryData`, a topic of your own its `answer`";

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
        "this topic doesn't decide about the job",
        "reject in `job.create`, `job.validate`, `job.dependency.SCHEME` or `job.update.KEY`; end an accepted job with `cx.fail(kind, note)`; a topic of your own fails with `HandlerError`, one of Slurm's with `SlurmError`";

    /// A handler may refuse the request with a Slurm error: `Result<(), SlurmError>`.
    ReturnsSlurmError:
        "a handler of `{Self}` can't fail with a `SlurmError`",
        "only `slurm.job_submit` and `slurm.job_modify` refuse with Slurm's errors",
        "refuse a job with `Reject` in `job.validate`; fail with `HandlerError` elsewhere";

    /// A handler may fail with a `HandlerError`, which is logged; the job goes on.
    ReturnsFault:
        "a handler of `{Self}` can't fail with a `HandlerError`",
        "a failure here is for the user, and not for the log",
        "return `Result<(), Reject>` from `job.validate` and other topics that decide about a job, `Result<(), ConfError>` from `conf.update`, `Result<(), SlurmError>` from `slurm.job_submit` and `slurm.job_modify`";

    /// A handler that is not `async` may fail with `PrologFailed` or `EpilogFailed`. Only Slurm's prologs and
    /// epilogs have this capability: for other handlers no prolog or epilog is started.
    ReturnsEnd:
        "`PrologFailed` and `EpilogFailed` are for `async` handlers, and this one of `{Self}` isn't",
        "no prolog or epilog is started for this handler",
        "write `async fn`; or fail with `HandlerError`, and start one with `cx.prolog_start(..)` or `cx.epilog_start(..)`";

    /// A handler may allocate resources to the job: `ResourceSet`.
    ReturnsResources:
        "resources can't be allocated to a job in `{Self}`",
        "only a job in SCHED waits for resources",
        "return them from `job.state.sched`";

    /// A handler decides about a user's request to change a jobspec: `Update`.
    ReturnsUpdate:
        "`{Self}` is not a request for an update",
        "only `job.update.KEY` is called to decide about a change",
        "handle `job.update.KEY`, as in `#[on(\"job.update.attributes.system.duration\")]`";

    /// A handler reports about the plugin: `QueryData`.
    ReturnsQuery:
        "`{Self}` is not a query",
        "only `plugin.query` returns data",
        "handle `plugin.query`";

    /// A handler says which allocations are asked for and given back: `Plan`.
    ReturnsPlan:
        "a plan of allocations can't be returned from a handler of `{Self}`",
        "only `allocation.plan` asks for one",
        "handle `allocation.plan`";

    /// A handler may fail with a `HandlerError` that goes to the client.
    ReturnsQueryFailure:
        "a handler of `{Self}` can't fail with a `HandlerError`",
        "a failure here is for the user, and not for the log",
        "return `Result<(), Reject>` from `job.validate` and other topics that decide about a job, `Result<(), ConfError>` from `conf.update`";

    /// A service returns any `Serialize`.
    ReturnsReply:
        "`{Self}` is not a service, so it has no response",
        "only a function under `#[service]` handles requests",
        "mark the function `#[service(\"name\")]` instead of `#[on(..)]`";

    /// A handler may refuse the configuration: `Result<(), ConfError>`.
    ReturnsConf:
        "a configuration can't be refused in `{Self}`",
        "only `#[init]` and `conf.update` have a configuration",
        "check it in `#[init]` or in a `conf.update` handler";

    /// A dependency may be added to the current job.
    AllowsDependencyAdd:
        "a dependency can't be added from `{Self}`",
        "the job may have left DEPEND",
        "add dependencies in `job.validate`, `job.dependency.SCHEME` or `job.state.depend`; to another job with `cx.dependency_add_to(pending, description)`";

    /// A prolog may be started for the current job.
    AllowsProlog:
        "a prolog can't be started from `{Self}`",
        "a prolog needs an accepted job that is not started",
        "start it in `job.state.run`, where the job has its resources";

    /// An epilog may be started for the current job.
    AllowsEpilog:
        "an epilog can't be started from `{Self}`",
        "an epilog needs a job in CLEANUP",
        "start it in `job.state.cleanup`; for another job with `cx.epilog_start_of(cleanup, description)`";

    /// The resources that the current job frees may be retained.
    AllowsRetain:
        "resources can't be retained from `{Self}`",
        "a job's resources are retained in the event that frees them",
        "do it in `job.event.free`, after subscribing to the job with `cx.subscribe(job)`";

    /// The jobspec of the current job may be changed.
    AllowsJobspecUpdate:
        "the jobspec can't be changed from `{Self}`",
        "a plugin can change the jobspec of a job without resources only",
        "change it in `job.validate`, `job.new`, or in `job.state.depend`, `.priority` or `.sched`; for another job with `cx.jobspec_update_of(pending, path, value)`";

    /// A message may be sent to the user who makes the request.
    AllowsUserMessage:
        "a message can't be sent to the user from `{Self}`",
        "only the responses to requests in Slurm's terms have messages",
        "refuse with a text, `Err(Reject::new(..))`, in a gate; elsewhere use `cx.memo(job, key, text)`, or `cx.log(level, text)`";

    /// A fatal exception may be raised on the current job.
    AllowsFatal:
        "the current job can't be ended by an exception in `{Self}`",
        "there may be no job, or it may be inactive or not accepted yet",
        "return `Err(Reject::new(..))` from topics that decide about a job; elsewhere end an active job: `cx.fail_job(cx.active_job(id)?, kind, note)`";
}
