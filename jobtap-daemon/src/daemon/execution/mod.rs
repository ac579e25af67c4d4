//! Connects the engine to the executor: a thread that reads what a job needs to run from the store, and hands it over.

mod accounts;
mod distribution;
mod environment;
pub(super) mod host_limits;
pub(super) mod task_processes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use jobtap_core::array::Element;
use jobtap_core::engine::{self, ExecCommand, ExecStart, Input, JobLog};
use jobtap_core::eventlog::Name;
use jobtap_core::job::{Encoding, JobId, TaskMap, Uid};
use jobtap_core::resource::{Idset, ResourceSet};
use serde_json::Value;
use tokio::sync::oneshot;

pub(super) use self::accounts::Accounts;
use self::accounts::Known;
pub(super) use self::environment::{Environments, environment_of};
use self::host_limits::HostLimits;
use self::task_processes::TaskProcesses;
use super::engine::EngineHandle;
use super::records::Records;
use crate::exec::{
    Account, Executor, HeldJob, JobCommand, KillPolicy, Seen, StartJob, TaskProcess,
};
use crate::rpc::RpcError;
use crate::rpc::errno::{EHOSTUNREACH, EINVAL, ENOENT};
use crate::rpc::uri;

/// How long the manager of a temporary instance waits for its shepherd to exit. Without jobs the shepherd
/// exits at once; one that takes longer exits by itself.
const SHEPHERD_END: Duration = Duration::from_secs(6);

/// The interval at which results are polled for while a user is looked up.
const LOOK_UP_POLL: Duration = Duration::from_millis(5);

/// Sends commands to the executor. They are carried out in order, on a thread of their own, since the committing thread
/// must not wait.
#[derive(Clone)]
pub(super) struct Execution {
    messages: Sender<Message>,
    processes: TaskProcesses,
}

enum Message {
    /// From the engine.
    Engine(Vec<ExecCommand>),
    /// From a client.
    Client(JobCommand),
    Set {
        kill: KillPolicy,
        output_limit: u64,
    },
    Settle,
    /// What a node holds that has come later.
    Held(Vec<HeldJob>),
    Close {
        for_good: bool,
        done: Sender<()>,
    },
}

/// A message about one job.
enum JobMessage {
    /// From the engine.
    Engine(ExecCommand),
    /// From a client.
    Client(JobCommand),
}

impl JobMessage {
    fn id(&self) -> JobId {
        match self {
            Self::Engine(command) => command.id(),
            Self::Client(command) => command.id(),
        }
    }
}

/// What the thread uses.
pub(super) struct ExecutionContext {
    /// The executor.
    pub executor: Box<dyn Executor>,
    /// The ranks that it serves.
    pub ranks: Idset,
    /// What this host can run.
    pub limits: HostLimits,
    /// The jobs' records.
    pub records: Records,
    /// Where failures to start a job are reported.
    pub engine: EngineHandle,
    /// The accounts that jobs run as.
    pub accounts: Accounts,
    /// What jobs were submitted with.
    pub environments: Environments,
    /// The manager's address, for the tasks' environment.
    pub uri: String,
    /// The ids of the jobs that enclose the manager, outermost first, as in `/f3/f5`; `/` if there are none.
    pub jobid_path: String,
    /// How jobs are killed that are canceled from now on, and those that the shepherd ends without a manager.
    pub kill: KillPolicy,
    /// How many bytes of a job's output streams are kept if they have no file.
    pub output_limit: u64,
}

impl Execution {
    /// Returns a handle, and the receiver of its commands for [`run`]. Processes of tasks that the executor reports go
    /// to `processes`.
    pub(super) fn new(processes: TaskProcesses) -> (Self, Inbox) {
        let (messages, receiver) = channel();
        (Self { messages, processes }, Inbox(receiver))
    }

    /// Sends commands of the engine.
    pub(super) fn send(&self, commands: Vec<ExecCommand>) {
        let _ = self.messages.send(Message::Engine(commands));
    }

    /// Passes a command of a client to a job's tasks.
    pub(super) fn pass(&self, command: JobCommand) {
        let _ = self.messages.send(Message::Client(command));
    }

    /// Requests the processes of a job's tasks.
    pub(super) fn tasks(&self, id: JobId) -> oneshot::Receiver<Vec<TaskProcess>> {
        let told = self.processes.await_report(id);
        self.pass(JobCommand::Tasks { id });
        told
    }

    /// Sets how jobs are killed from now on, and how much output is kept of jobs that are started from now on.
    pub(super) fn set(&self, kill: KillPolicy, output_limit: u64) {
        let _ = self.messages.send(Message::Set { kill, output_limit });
    }

    /// Says that all jobs of an earlier run were started again, so that the executor's other jobs are ended.
    pub(super) fn settle(&self) {
        let _ = self.messages.send(Message::Settle);
    }

    /// Ends those jobs of a node that aren't continued.
    pub(super) fn held(&self, jobs: Vec<HeldJob>) {
        let _ = self.messages.send(Message::Held(jobs));
    }

    /// Disconnects from the executor after all earlier commands, and returns when that is done. `for_good` says that no
    /// manager will come back for its jobs.
    pub(super) fn close(&self, for_good: bool) {
        let (done, closed) = channel();
        if self.messages.send(Message::Close { for_good, done }).is_ok() {
            let _ = closed.recv();
        }
    }
}

/// The receiving end of an [`Execution`].
pub(super) struct Inbox(Receiver<Message>);

/// Carries out commands until all handles are dropped.
pub(super) fn run(inbox: Inbox, context: ExecutionContext) {
    let mut work = ExecutionWork::new(inbox, context);
    let done = work.serve();
    // In this order: `close` returns when `done` is dropped, and the executor is disconnected by then.
    drop(work);
    drop(done);
}

/// Jobs whose users are being looked up, with the messages to carry out afterwards, the start first.
type Waiting = BTreeMap<JobId, (Uid, Vec<JobMessage>)>;

/// What is done with the commands, and what they wait for.
pub(super) struct ExecutionWork {
    inbox: Inbox,
    context: ExecutionContext,
    waiting: Waiting,
    /// The jobs that were started, until all of an earlier run were started again.
    started: Option<Vec<JobId>>,
}

impl ExecutionWork {
    pub(super) fn new(inbox: Inbox, context: ExecutionContext) -> Self {
        Self { inbox, context, waiting: Waiting::new(), started: Some(Vec::new()) }
    }

    /// Carries out commands until the last one, which waits for the end of this.
    fn serve(&mut self) -> Option<Sender<()>> {
        loop {
            let message = match self.waiting.is_empty() {
                true => match self.inbox.0.try_recv() {
                    Ok(message) => message,
                    Err(_) => {
                        self.context.executor.flush();
                        self.inbox.0.recv().ok()?
                    }
                },
                false => {
                    self.take_accounts();
                    self.context.executor.flush();
                    match self.inbox.0.recv_timeout(LOOK_UP_POLL) {
                        Ok(message) => message,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => return None,
                    }
                }
            };
            if let Some(done) = self.take(message) {
                return Some(done);
            }
        }
    }

    /// Carries out the next command, if one waits. Returns whether one did.
    pub(super) fn step(&mut self) -> bool {
        self.take_accounts();
        match self.inbox.0.try_recv() {
            Ok(message) => {
                let _done = self.take(message);
                true
            }
            Err(_) => {
                self.context.executor.flush();
                false
            }
        }
    }

    /// Continues with the jobs of users who were looked up.
    fn take_accounts(&mut self) {
        for (user, known) in self.context.accounts.answered() {
            continue_with(&mut self.context, &mut self.waiting, user, known);
        }
    }

    /// Carries out a message. Returns who waits for the end if it is the last one.
    fn take(&mut self, message: Message) -> Option<Sender<()>> {
        let Self { context, waiting, started, .. } = self;
        match message {
            Message::Set { kill, output_limit } => {
                context.kill = kill;
                context.output_limit = output_limit;
            }
            Message::Settle => {
                let held = context.executor.held().to_vec();
                end_strays(context, &held, &started.take().unwrap_or_default());
                context.executor.settled();
            }
            Message::Held(jobs) => end_strays(context, &jobs, &[]),
            Message::Close { for_good, done } => {
                if for_good {
                    // The shepherd kills leftovers of jobs when it exits, so wait for its exit before the state
                    // directory is removed.
                    context.executor.shut_down(SHEPHERD_END);
                }
                return Some(done);
            }
            Message::Engine(commands) => {
                for command in commands {
                    if let (ExecCommand::Start(start), Some(started)) = (&command, &mut *started) {
                        started.push(start.id);
                    }
                    carry_out(context, waiting, JobMessage::Engine(command));
                }
            }
            Message::Client(command) => {
                carry_out(context, waiting, JobMessage::Client(command));
            }
        }
        None
    }
}

/// Carries out a message about a job, or defers it until the job's user is known.
fn carry_out(context: &mut ExecutionContext, waiting: &mut Waiting, message: JobMessage) {
    let id = message.id();
    if let Some((_, held)) = waiting.get_mut(&id) {
        held.push(message);
        return;
    }
    let command = match message {
        JobMessage::Engine(command) => command,
        JobMessage::Client(command) => return context.executor.command(command),
    };
    match command {
        ExecCommand::Start(job) => {
            let account = match context.accounts.get(job.userid) {
                Known::Account(account) => account,
                // The executor needs no account for a job that it already has.
                Known::NotYet
                    if job.reattach || context.executor.held().iter().any(|held| held.id == id) =>
                {
                    None
                }
                Known::NotYet => {
                    let (user, start) = (job.userid, ExecCommand::Start(job));
                    waiting.insert(id, (user, vec![JobMessage::Engine(start)]));
                    return;
                }
            };
            start(context, job, account);
        }
        ExecCommand::Signal { id, signal, reach } => {
            context.executor.command(JobCommand::Signal { id, signal, reach });
        }
        ExecCommand::Cancel { id, signal } => {
            context.executor.command(JobCommand::Cancel { id, signal, kill: context.kill });
        }
        ExecCommand::Recall { id } => context.executor.command(JobCommand::Recall { id }),
        ExecCommand::Ack { id } => context.executor.command(JobCommand::Ack { id }),
    }
}

/// Carries out the deferred messages for the jobs of a user who was looked up.
fn continue_with(context: &mut ExecutionContext, waiting: &mut Waiting, user: Uid, known: bool) {
    let of_user = |_: &JobId, (owner, _): &mut (Uid, Vec<JobMessage>)| *owner == user;
    let jobs: Vec<_> = waiting.extract_if(.., of_user).collect();
    for (id, (_, held)) in jobs {
        for message in held {
            match message {
                JobMessage::Engine(ExecCommand::Start(_)) if !known => {
                    let text =
                        format!("cannot run a job of user {user}, whom this host doesn't know");
                    refuse(context, id, &RpcError::new(EINVAL, text));
                }
                message => carry_out(context, waiting, message),
            }
        }
    }
}

/// Ends the jobs that the executor holds and the manager does not start again.
fn end_strays(context: &ExecutionContext, held: &[HeldJob], started: &[JobId]) {
    for job in held {
        if started.contains(&job.id) || will_be_started(&context.records, job.id) {
            continue;
        }
        if !job.ended {
            let (signal, kill) = (context.kill.term_signal, context.kill);
            context.executor.command(JobCommand::Cancel { id: job.id, signal, kill });
        }
        context.executor.command(JobCommand::Ack { id: job.id });
    }
}

/// Whether a job has no recorded end. Its start may still wait for a prolog. If it has no resources, an executor has begun
/// it [after](StartJob::after) another job, and no shepherd may forget that.
fn will_be_started(records: &Records, id: JobId) -> bool {
    records.main_log(id).is_ok_and(|log| !log.has_ended())
}

fn start(context: &mut ExecutionContext, job: ExecStart, account: Option<Account>) {
    let id = job.id;
    match start_job(context, job) {
        Ok(job) => context.executor.start(StartJob { account, ..job }),
        Err(error) => refuse(context, id, &error),
    }
}

/// Reports that a job can't be started.
fn refuse(context: &ExecutionContext, id: JobId, error: &RpcError) {
    let exception = engine::RaisedException::new("exec", 0, error.to_string());
    for event in
        [engine::ExecEvent::Exception { id, exception }, engine::ExecEvent::Released { id }]
    {
        context.engine.input(Input::Exec(event));
    }
}

/// Returns what the executor needs to know about a job. The environment comes from the store.
fn start_job(context: &mut ExecutionContext, job: ExecStart) -> Result<StartJob, RpcError> {
    let ExecStart { id, userid, jobspec, resources, reattach, after } = job;
    let resources = resources.ok_or_else(|| missing("R"))?;
    served(&resources, &context.ranks)?;
    let nodes = distribution::nodes(&jobspec, &resources);
    let ntasks = nodes.iter().fold(0, |sum: u32, node| sum.saturating_add(node.ntasks));
    let element = Element::of(jobspec.value());
    let shell_options = jobspec.attribute("system.shell.options").cloned().unwrap_or(Value::Null);
    // Only an executor that already knows the job looks at what is recorded about it.
    let seen = if reattach || context.executor.held().iter().any(|held| held.id == id) {
        seen(&context.records, id)?
    } else {
        // With tasks per resource, only R shows the number of tasks. A job that already runs fits.
        let checked = context.limits.check_tasks(ntasks.into(), &shell_options);
        checked.map_err(|excess| RpcError::new(EINVAL, excess.to_string()))?;
        Seen::default()
    };
    Ok(StartJob {
        id,
        userid: userid.as_u32(),
        account: None,
        command: jobspec.command().map(str::to_owned).collect(),
        ntasks,
        nodes,
        part: None,
        cwd: jobspec.cwd().map_or_else(|| PathBuf::from("/"), PathBuf::from),
        env: environment(context, id, element)?,
        shell_options,
        files: jobspec.attribute("system.files").cloned().unwrap_or(Value::Null),
        tmpdir: None,
        taskmap: TaskMap::default(),
        name: jobspec.display_name().to_owned(),
        element,
        queue: jobspec.attribute("system.queue").and_then(Value::as_str).map(str::to_owned),
        resources: resources.to_value(),
        reattach,
        after,
        seen,
        kill: context.kill,
        output_limit: context.output_limit,
        takes_output: true,
    })
}

/// Returns what is recorded about a job that was started before.
fn seen(records: &Records, id: JobId) -> Result<Seen, RpcError> {
    let log = records.main_log(id)?;
    let exec_log = records.log(id, JobLog::Exec)?.unwrap_or_default();
    Ok(Seen {
        log_entries: exec_log.lines().count(),
        exceptions: log.exec_exceptions(),
        finished: log.has(&Name::Finish),
    })
}

/// Refuses resources of other hosts, on which there is no executor.
fn served(resources: &ResourceSet, ranks: &Idset) -> Result<(), RpcError> {
    let foreign = resources.without_ranks(ranks);
    if foreign.is_empty() {
        return Ok(());
    }
    let (hosts, ranks) = (foreign.nodelist(), foreign.ranks());
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    Err(RpcError::new(EHOSTUNREACH, format!("no executor on {hosts} ({word} {ranks})")))
}

/// Returns the environment as submitted, which only `J` has, or as changed by a plugin, with the variables that say
/// where the job runs.
fn environment(
    context: &mut ExecutionContext,
    id: JobId,
    element: Option<Element>,
) -> Result<Vec<(String, String)>, RpcError> {
    let variables = context.environments.get(&context.records, id)?;
    let own = place(context, id, element, variables.contains_key("FLUX_F58_FORCE_ASCII"));
    let is_own = |name: &str| own.iter().any(|(other, _)| *other == name);
    let submitted = variables.iter().filter(|(name, _)| !is_own(name));
    let mut all: Vec<_> = submitted.map(|(name, value)| (name.clone(), value.clone())).collect();
    all.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(all)
}

/// Returns the variables that tell a job's tasks their manager, their job and their place in a job array.
fn place(
    context: &ExecutionContext,
    id: JobId,
    element: Option<Element>,
    ascii: bool,
) -> Vec<(&'static str, String)> {
    let encoding = if ascii { Encoding::F58Plain } else { Encoding::F58 };
    let path = format!("{}/{}", context.jobid_path.trim_end_matches('/'), id.encode(encoding));
    let mut variables = vec![
        (uri::VARIABLE, context.uri.clone()),
        (uri::FLUX_VARIABLE, context.uri.clone()),
        ("JOBTAP_JOB_ID_PATH", path.clone()),
        ("FLUX_JOB_ID_PATH", path),
        // In Flux, the guest directory of a job is a KVS namespace that is named after its id.
        ("FLUX_KVS_NAMESPACE", format!("job-{}", id.as_u64())),
    ];
    if let Some(Element { array, index }) = element {
        variables.push(("JOBTAP_ARRAY_ID", array.encode(encoding)));
        variables.push(("JOBTAP_ARRAY_INDEX", index.to_string()));
    }
    variables
}

fn missing(key: &str) -> RpcError {
    RpcError::new(ENOENT, format!("the job's {key} is missing in the store"))
}
