//! Launches a job, or attaches a known job to the manager that requests it.
//!
//! A launch has several steps: the job is claimed, then its files are prepared, then its tasks are
//! started. Messages that are handled between the steps find the job with none or some of its tasks
//! running.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobtap_core::engine::{ExecEvent, RaisedException};
use jobtap_core::job::{JobId, Reach};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::UnboundedSender;

use super::claims::Claimed;
use super::devices::Devices;
use super::exchange::JobExchange;
use super::files::jobdir::JobDirs;
use super::forker::{Forker, TaskReport};
use super::helpers::Helpers;
use super::host_name::{host_name, name_host};
use super::job::{Attach, Executing, Job, Launch, Plan, State, Step, TaskRequest};
use super::job_user::JobUser;
use super::message::{ExecResult, Message};
use super::not_forked::NotForked;
use super::option_shapes;
use super::pids::signals::signal_task;
use super::placement::{own_tasks, task_from, task_map};
use super::pmi;
use super::processes::groups::signal_groups;
use super::rlimits::TaskLimits;
use super::spawn::{Launcher, Prepared, SpawnError, program_of, settle_directory, settle_tmpdir};
use super::start_error::StartError;
use super::state::Shepherd;
use super::streams::ends::Ends;
use super::streams::fifo::Fifo;
use super::streams::input::JobInput;
use super::streams::options::{ExitOptions, Input, IoOptions, files_per_task};
use super::streams::taskio::JobIo;
use super::succession;
use super::system_error::plain;
use crate::exec::job_files::JobFiles;
use crate::exec::protocol::{Resumed, ShepherdMessage};
use crate::exec::{SHEPHERD_LOST, Seen, StartJob};

/// How long one job is launched before others get their turn. Starting a task takes about a millisecond,
/// so most jobs are launched in one slice.
const SLICE: Duration = Duration::from_millis(5);

/// The maximum number of requests for the process of a task. It is requested again if a forker died before it could
/// start the process.
const ATTEMPTS: u32 = 3;

/// The result of a slice of a launch.
enum Slice {
    /// The rest is for another slice.
    Paused,
    /// The launch goes on when a new process executes its program.
    Waits,
    /// All tasks run.
    Complete,
}

/// Why a launch ends without all of its tasks.
enum LaunchError {
    /// The reason is in the job's files or options.
    Job(StartError),
    /// The task with this rank can't be started.
    Task(u32, SpawnError),
}

impl From<StartError> for LaunchError {
    fn from(error: StartError) -> Self {
        Self::Job(error)
    }
}

/// The parts of the shepherd that a launch uses.
struct Means<'a> {
    forker: &'a mut Forker,
    job_dirs: &'a JobDirs,
    output: &'a Arc<JobFiles>,
    input: &'a JobFiles,
    helpers: &'a Arc<Helpers>,
    nonce: &'a str,
    inbox: &'a UnboundedSender<Message>,
}

impl Shepherd {
    /// Serves a start request. A job is launched once, however often it is requested.
    pub(super) fn start_or_attach(&mut self, mut start: StartJob) {
        let outbox = self.outbox();
        if let Some(known) = self.jobs.get_mut(&start.id) {
            let how = if start.reattach { Attach::Reattach } else { Attach::Again };
            known.attach(outbox, how, start.seen);
            return;
        }
        if start.reattach || self.claims.is_earlier(start.id) {
            let note = match start.reattach {
                true => "job is lost: the shepherd that ran it is gone",
                false => {
                    "job is lost: a shepherd that is gone began to start it; as it may have run, it \
                     is not started again"
                }
            };
            self.report_lost(start.id, start.seen, note);
            return;
        }
        self.keep_running();
        let id = start.id;
        // As the job's user: a map may be in a file of the user.
        let mapped = JobUser::for_job(&start).map_err(StartError::from).and_then(|job_user| {
            start.taskmap = job_user.try_act(|| Ok::<_, StartError>(task_map(&start)?))?;
            Ok(job_user)
        });
        let mut job = Job::new(&start, outbox);
        // The claim takes a sync of the disk. Entries that are logged before are sent with the result of the first
        // slice, so that the manager commits them together.
        job.journal.hold_back();
        job.log_begin();
        match mapped.and_then(|job_user| self.plan(start, job_user, &mut job)) {
            Ok(plan) => {
                job.claim(plan);
                match self.claims.begin(id) {
                    true => self.starting.push_back(id),
                    false => self.claims.claim(id),
                }
            }
            Err(error) => job.fail(error.to_string()),
        }
        self.jobs.insert(id, job);
        self.end_if_done(id);
    }

    /// Continues the jobs of the shepherd whose place this one takes.
    pub(super) fn resume(&mut self, resumed: &[Resumed]) {
        for &Resumed { id, seen, started } in resumed {
            let outbox = self.outbox();
            match self.jobs.get_mut(&id) {
                Some(job) => job.attach(outbox, Attach::Resume { started }, seen),
                None => {
                    let note = "job is lost: the shepherd that ran it is gone";
                    self.report_lost(id, seen, note);
                }
            }
        }
        // Ended jobs that the manager doesn't continue count as acknowledged, since the acknowledgements may be lost. Of one
        // that a dead shepherd has begun by itself, it may not have heard.
        let known: HashSet<JobId> = resumed.iter().map(|job| job.id).collect();
        let ended = self.jobs.values_mut().filter(|job| {
            job.has_ended() && !known.contains(&job.id) && !job.is_unknown_to_managers()
        });
        let ended = ended.map(|job| {
            job.acknowledged = true;
            job.id
        });
        for id in ended.collect::<Vec<_>>() {
            self.remove_if_acknowledged(id);
        }
    }

    fn report_lost(&self, id: JobId, seen: Seen, note: &str) {
        let Some(outbox) = self.outbox() else { return };
        if !seen.finished {
            let note = note.to_owned();
            let event = match self.lost_jobs_run_on {
                true => ExecEvent::Lost { id, note, reason: SHEPHERD_LOST.to_owned() },
                false => {
                    ExecEvent::Exception { id, exception: RaisedException::new("exec", 0, note) }
                }
            };
            let _ = outbox.send(ShepherdMessage::Event(event));
        }
        let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Released { id }));
    }

    /// Plans the launch, and accepts input for the job from now on.
    fn plan(
        &mut self,
        start: StartJob,
        job_user: JobUser,
        job: &mut Job,
    ) -> Result<Plan, StartError> {
        option_shapes::check(&start.shell_options)?;
        if IoOptions::parse(&start.shell_options)?.input == Input::Service {
            let input = JobInput::of_clients(start.id, start.ntasks, self.inbox.clone());
            job.streams.input = Some(input);
        }
        job.set_exit_options(ExitOptions::parse(&start.shell_options)?);
        let limits = TaskLimits::parse(&start.shell_options, self.open_files)?;
        let requested = pmi::is_requested(&start.shell_options)?;
        // Most jobs have one task, for which the files need not be counted.
        let counted = (start.ntasks > 1).then(|| files_per_task(&start.shell_options)).flatten();
        let (files, most) = (counted.unwrap_or_default(), self.open_files.own());
        let has_pmi = pmi::is_wanted(requested, own_tasks(&start), files, most);
        let devices = Devices::for_job(&start)?;
        let pmi = has_pmi.then(|| self.pmi.job(&start, &self.inbox));
        let across = pmi.clone().filter(|_| start.part.is_some());
        job.exchange = across.map(JobExchange::new);
        Ok(Plan { start, limits, job_user, pmi, devices, signals: Vec::new() })
    }

    /// Requests the claims of the jobs whose start was requested.
    pub(super) fn send_claims(&mut self) {
        if let Some(unsent) = self.claims.send() {
            self.claimed(unsent);
        }
    }

    /// Schedules the launch of claimed jobs, and ends jobs that could not be claimed.
    pub(super) fn claimed(&mut self, Claimed { ids, outcome }: Claimed) {
        for id in ids {
            // It may have been canceled meanwhile.
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if !matches!(job.state, State::Claimed(_)) {
                continue;
            }
            match &outcome {
                Ok(()) => self.starting.push_back(id),
                Err(error) => {
                    job.fail(error.to_string());
                    self.end_if_done(id);
                }
            }
        }
    }

    /// Continues the launch that has waited longest, for one slice.
    pub(super) fn next_slice(&mut self) {
        let Some(id) = self.starting.pop_front() else { return };
        let Self { jobs, forker, job_dirs, output, input, helpers, nonce, inbox, .. } = self;
        // A job that was canceled is not launched any more.
        let Some(job) = jobs.get_mut(&id) else { return };
        let helpers = helpers.get(job.userid);
        let means = Means { forker, job_dirs, output, input, helpers, nonce, inbox };
        let plan = job.take_plan();
        let holds_output = plan.as_ref().is_some_and(|plan| plan.start.takes_output);
        let begun = plan.map_or(Ok(()), |plan| begin(plan, job, &means).map_err(LaunchError::Job));
        let slice = begun.and_then(|()| match job.state.launch() {
            Some(launch) => launch.slice(means).map(Some),
            None => Ok(None),
        });
        job.journal.send();
        if holds_output {
            self.holds_output(id);
        }
        match slice {
            Ok(Some(Slice::Paused)) => self.starting.push_back(id),
            Ok(Some(Slice::Waits) | None) => {}
            Ok(Some(Slice::Complete)) => self.launched(id),
            Err(error) => self.fail_launch(id, error),
        }
    }

    /// Continues a launch that has waited for its FIFOs.
    pub(super) fn fifos_opened(&mut self, id: JobId, result: Result<(), StartError>) {
        // The job may have been canceled meanwhile.
        let launch = self.jobs.get_mut(&id).and_then(|job| job.state.launch());
        if !launch.is_some_and(Launch::opened) {
            return;
        }
        match result {
            Ok(()) => self.starting.push_back(id),
            Err(error) => self.fail_launch(id, LaunchError::Job(error)),
        }
    }

    /// Handles the start of a task's process by the forker. Without a report, the process executes its program already.
    pub(super) fn started(&mut self, id: JobId, pid: Pid, report: Option<TaskReport>) {
        // Registered before anything that can fail: a running task that isn't registered would be neither killed nor
        // reported.
        self.tasks.insert(pid, id);
        // It may have been killed as nobody's child, after the death of its forker.
        self.killed_orphans.remove(&pid);
        let Some(job) = self.jobs.get_mut(&id) else {
            return self.signal_process(pid, Signal::KILL, Reach::Group);
        };
        let Some(executing) = job.state.launch().and_then(Launch::executing) else {
            // It was canceled meanwhile.
            if let Some(rank) = job.take_unreported_task() {
                job.tasks.add(pid, rank);
            }
            return self.signal_process(pid, Signal::KILL, Reach::Group);
        };
        executing.pid = Some(pid);
        let rank = executing.request.rank;
        job.tasks.add(pid, rank);
        let Some(report) = report else { return self.executed(id, pid, ExecResult::Done) };
        let inbox = self.inbox.clone();
        match report.outcome(self.patience) {
            Ok(outcome) => drop(tokio::spawn(async move {
                let result = outcome.await;
                // Fails only if the shepherd has ended.
                let _ = inbox.send(Message::Executed { id, pid, result });
            })),
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                let _ =
                    inbox.send(Message::Executed { id, pid, result: ExecResult::Refused(errno) });
            }
        }
    }

    /// Handles a task for which no process was started: the system refused it, or the forker died before.
    pub(super) fn not_forked(&mut self, id: JobId, why: NotForked) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(launch) = job.state.launch() else {
            job.take_unreported_task();
            return self.end_if_done(id);
        };
        let Some(Executing { request: TaskRequest { rank, attempts }, .. }) =
            launch.take_executing(None)
        else {
            return;
        };
        let attempts = attempts + 1;
        let error = match why {
            NotForked::Again if attempts < ATTEMPTS => {
                launch.step = Step::Task(TaskRequest { rank, attempts });
                return self.starting.push_back(id);
            }
            NotForked::Refused(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                Launcher::refused(&launch.plan.start, errno)
            }
            NotForked::Again | NotForked::Lost => SpawnError::ForkerDied,
        };
        self.fail_launch(id, LaunchError::Task(rank, error));
    }

    /// Continues a launch when it is known whether the last process that it started executes its program.
    pub(super) fn executed(&mut self, id: JobId, pid: Pid, result: ExecResult) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // The job may have been canceled meanwhile.
        let Some(launch) = job.state.launch() else { return };
        let Some(Executing { request, ends, .. }) = launch.take_executing(Some(pid)) else {
            return;
        };
        let rank = request.rank;
        let error = match result {
            ExecResult::Done => {
                let helpers = self.helpers.get(job.userid);
                match job.streams.start(id, rank, ends, helpers, &self.inbox) {
                    Ok(()) => return self.starting.push_back(id),
                    Err(error) => SpawnError::Streams(error),
                }
            }
            ExecResult::Refused(errno) => {
                let error = Launcher::refused(&launch.plan.start, errno);
                self.tasks.remove(&pid);
                if job.not_executed(pid) {
                    // The user may have stopped it before its end.
                    self.signal_process(pid, Signal::KILL, Reach::Group);
                }
                error
            }
            ExecResult::Late => SpawnError::Late(self.patience),
        };
        self.fail_launch(id, LaunchError::Task(rank, error));
    }

    /// Ends a launch that can't be completed.
    fn fail_launch(&mut self, id: JobId, error: LaunchError) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match error {
            LaunchError::Job(error) => job.fail(error.to_string()),
            LaunchError::Task(rank, error) => {
                let exit_code = error.exit_code();
                let mut note = match exit_code {
                    None => format!("task {rank}: {error}"),
                    Some(_) => format!("task {rank} (host {}): start failed: {error}", host_name()),
                };
                let written = job.state.launch().map_or(Ok(()), |launch| {
                    launch.io.fatal(&note);
                    launch.io.flush_log()
                });
                match (exit_code, written) {
                    (Some(exit_code), Ok(())) => job.command_failed(exit_code, note),
                    (_, written) => {
                        if let Err(error) = written {
                            note = StartError::WriteLog(error).to_string();
                        }
                        job.fail(note);
                    }
                }
            }
        }
        signal_groups(&mut self.forker, &job.tasks, Signal::KILL);
        self.end_if_done(id);
    }

    /// Sends a signal to the process of a task, and possibly to its group.
    fn signal_process(&mut self, pid: Pid, signal: Signal, reach: Reach) {
        if !self.forker.signal(pid, signal, reach) {
            signal_task(pid, signal, reach);
        }
    }

    /// Completes the launch of a job whose tasks were all started.
    fn launched(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (signals, timeout) = job.launched();
        for (signal, reach) in signals {
            self.signal_as_far_as(id, signal, reach);
        }
        self.time_others(id, timeout);
        self.end_if_done(id);
    }

    /// Sends a signal to processes of a job; if it is being launched, after the launch.
    pub(super) fn signal_when_launched(&mut self, id: JobId, signal: Signal, reach: Reach) {
        match self.jobs.get_mut(&id).and_then(|job| job.state.plan()) {
            Some(Plan { signals, .. }) => {
                if !signals.contains(&(signal, reach)) {
                    signals.push((signal, reach));
                }
            }
            None => self.signal_as_far_as(id, signal, reach),
        }
    }

    fn signal_as_far_as(&mut self, id: JobId, signal: Signal, reach: Reach) {
        match reach {
            Reach::Group => self.signal(id, signal),
            Reach::Steps => self.signal_steps(id, signal),
            Reach::Task => {
                let tasks = self.jobs.get(&id).filter(|job| !job.has_ended());
                let tasks = tasks.into_iter().flat_map(|job| job.tasks.running());
                let pids: Vec<Pid> = tasks.map(|(pid, _)| pid).collect();
                for pid in pids {
                    self.signal_process(pid, signal, reach);
                }
            }
        }
    }

    /// Serves a request with input for a job.
    pub(super) fn add_input(&mut self, id: JobId, rank: Option<u32>, data: &[u8], eof: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Err(error) = job.streams.add_input(rank, data, eof, || self.input.create(id)) {
            job.journal.inform(format!("input lost: {}", plain(&error)));
        }
    }
}

/// Begins a launch: makes the job's directory, creates the output log and opens the files that all tasks share.
fn begin(mut plan: Plan, job: &mut Job, means: &Means<'_>) -> Result<(), StartError> {
    let Plan { start, limits, job_user, pmi, .. } = &mut plan;
    job.dir = means.job_dirs.make(start, job_user)?;
    start.tmpdir = job.dir.as_ref().map(|dir| dir.path().to_owned());
    let elsewhere = settle_directory(start, job_user).err();
    let reset = settle_tmpdir(start, job_user).err();
    name_host(start);
    let program = program_of(start, job_user);
    let io = JobIo::create(start, job_user, job.streams.helpers(means.helpers), means.output)?;
    job.streams.output = Some(io.log());
    for warning in limits.warnings() {
        io.warn("rlimit", &warning);
    }
    if let Some(file) = io.input_file() {
        let (path, made) = (file.to_string_lossy(), means.input.create(start.id));
        let inbox = means.inbox.clone();
        let input =
            made.and_then(|made| JobInput::redirected(made, start.id, start.ntasks, &path, inbox));
        job.streams.input = Some(input.map_err(StartError::KeepInput)?);
    }
    if let Some(why) = reset {
        io.warn("tmpdir", &why.to_string());
    }
    if let Some(why) = elsewhere {
        io.error(&format!("host {}: {why}", host_name()));
    }
    if pmi.is_none()
        && let Ok(None) = pmi::is_requested(&start.shell_options)
    {
        io.warn("pmi", "too few open files for PMI; -o pmi=simple asks for it");
    }
    job.state = State::Launching(Box::new(Launch::new(plan, io, program)));
    Ok(())
}

impl Launch {
    /// Prepares files until the slice is over, or requests the process of the next task.
    fn slice(&mut self, means: Means<'_>) -> Result<Slice, LaunchError> {
        let Means { forker, nonce, inbox, .. } = means;
        let until = Instant::now() + SLICE;
        let start = &self.plan.start;
        loop {
            match self.step {
                Step::Fifos => {
                    open_fifos(start.id, self.io.fifos().cloned().collect(), inbox.clone());
                    self.step = Step::Opening;
                }
                Step::Files(from) => match task_from(start, from) {
                    None => {
                        self.io.flush_log().map_err(StartError::WriteLog)?;
                        self.step = Step::Task(TaskRequest::first(0));
                    }
                    Some(rank) => {
                        self.io.prepare(start, rank)?;
                        self.step = Step::Files(rank + 1);
                    }
                },
                Step::Task(request) => {
                    let Some(rank) = task_from(start, request.rank) else {
                        self.io.flush_log().map_err(StartError::WriteLog)?;
                        return Ok(Slice::Complete);
                    };
                    let request = TaskRequest { rank, ..request };
                    let launcher = Launcher::new(&self.plan, &self.program, nonce);
                    let ends = launcher
                        .prepare(request.rank, &self.io)
                        .and_then(|prepared| request_process(start, prepared, forker))
                        .map_err(|error| LaunchError::Task(request.rank, error))?;
                    self.step = Step::Executing(Executing { request, pid: None, ends });
                    return Ok(Slice::Waits);
                }
                Step::Opening | Step::Executing(_) => return Ok(Slice::Waits),
            }
            if Instant::now() >= until {
                // Writes the entries about the prepared files, so that they don't gather in memory.
                self.io.flush_log().map_err(StartError::WriteLog)?;
                return Ok(Slice::Paused);
            }
        }
    }
}

/// Opens FIFOs, and reports it.
fn open_fifos(id: JobId, fifos: Vec<Arc<Fifo>>, inbox: UnboundedSender<Message>) {
    tokio::spawn(async move {
        let open = async {
            for fifo in fifos {
                fifo.open_for_launch().await?;
            }
            Ok(())
        };
        let result = open.await;
        // Fails only if the shepherd has ended.
        let _ = inbox.send(Message::FifosOpened { id, result });
    });
}

/// Requests the process of a task from the forker. Returns the shepherd's ends of its streams.
fn request_process(
    start: &StartJob,
    prepared: Prepared,
    forker: &mut Forker,
) -> Result<Ends, SpawnError> {
    let Prepared { mut spawn, theirs, ends } = prepared;
    let is_first = task_from(start, 0) == Some(spawn.rank);
    spawn.record = is_first.then(|| succession::record(start)).flatten();
    let theirs = theirs.iter().map(|(used, file)| (*used, file.as_fd()));
    let files: Vec<_> = theirs.chain(ends.shepherd_ends()).collect();
    let requested = forker.spawn(spawn, &files);
    requested.map_err(|error| Launcher::not_requested(start, error))?;
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::runtime::Runtime;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::super::forker::Forker;
    use super::*;
    use crate::exec::protocol::ShepherdRequest;
    use crate::exec::{JobCommand, KillPolicy, NodeTasks};
    use crate::open_files::OpenFiles;

    const ID: JobId = JobId::new(1);

    /// A shepherd whose loop is run by the test, and the replies to its manager.
    ///
    /// It reaps no children but those of its forker, because other tests of this process have children too.
    struct Bench {
        runtime: Runtime,
        state: TempDir,
        shepherd: Shepherd,
        messages: UnboundedReceiver<Message>,
        replies: UnboundedReceiver<ShepherdMessage>,
    }

    impl Bench {
        fn new() -> Self {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let state = tempfile::tempdir().unwrap();
            let (inbox, messages) = unbounded_channel();
            let (outbox, replies) = unbounded_channel();
            let open_files = OpenFiles::of_this_process();
            let dir = state.path().to_owned();
            // Parallel tests have shepherds in the same process, which must not signal its tasks.
            let nonce = dir.file_name().unwrap().to_string_lossy().into_owned();
            let forker = Forker::for_test(&dir, &nonce).unwrap();
            let mut shepherd = Shepherd::new(dir, nonce, open_files, forker, inbox).unwrap();
            shepherd.greet(1, outbox);
            Self { runtime, state, shepherd, messages, replies }
        }

        fn job(&self, id: JobId) -> StartJob {
            StartJob {
                id,
                userid: rustix::process::geteuid().as_raw(),
                command: ["sleep", "600"].map(str::to_owned).to_vec(),
                ntasks: 1,
                cwd: self.state.path().to_owned(),
                nodes: vec![NodeTasks { rank: 0, ntasks: 1 }],
                ..StartJob::new(id)
            }
        }

        fn request(&mut self, request: ShepherdRequest) {
            let _entered = self.runtime.enter();
            self.shepherd.request(request);
            self.shepherd.send_claims();
        }

        fn command(&mut self, command: JobCommand) {
            self.request(ShepherdRequest::Job(command));
        }

        fn cancel(&mut self, id: JobId, kill: KillPolicy) {
            self.command(JobCommand::Cancel { id, signal: kill.term_signal, kill });
        }

        /// Waits until jobs are claimed, and starts all of them.
        fn claimed(&mut self) {
            self.claim();
            self.launched();
        }

        /// Waits until jobs are claimed.
        fn claim(&mut self) {
            let _entered = self.runtime.enter();
            let claimed = loop {
                if let Message::Claimed(claimed) = self.messages.blocking_recv().unwrap() {
                    break claimed;
                }
            };
            self.shepherd.claimed(claimed);
        }

        /// Runs the loop until no process is being started.
        fn launched(&mut self) {
            self.until(|shepherd| {
                let waits = |job: &Job| job.state.awaits_process();
                shepherd.starting.is_empty() && !shepherd.jobs.values().any(waits)
            });
        }

        /// Runs the loop until a job has ended.
        fn ended(&mut self, id: JobId) {
            self.until(|shepherd| shepherd.jobs[&id].has_ended());
        }

        fn until(&mut self, done: impl Fn(&Shepherd) -> bool) {
            let Self { runtime, shepherd, messages, .. } = self;
            let steps = async {
                while !done(shepherd) {
                    if !shepherd.starting.is_empty() {
                        shepherd.next_slice();
                        continue;
                    }
                    tokio::select! {
                        () = shepherd.forker.ready() => shepherd.take_forker_reports(),
                        Some(message) = messages.recv() => shepherd.handle(message),
                    }
                }
            };
            let limit = Duration::from_secs(30);
            runtime.block_on(async { tokio::time::timeout(limit, steps).await }).unwrap();
        }

        fn tasks(&self, id: JobId) -> Vec<Pid> {
            self.shepherd
                .jobs
                .get(&id)
                .map_or_else(Vec::new, |job| job.tasks.running().map(|(pid, _)| pid).collect())
        }

        fn events(&mut self) -> Vec<String> {
            let mut events = Vec::new();
            while let Ok(reply) = self.replies.try_recv() {
                let event = match reply {
                    ShepherdMessage::Event(event) => event,
                    ShepherdMessage::Tasks { tasks, .. } => {
                        events.push(format!("{} tasks", tasks.len()));
                        continue;
                    }
                    _ => continue,
                };
                events.push(match event {
                    ExecEvent::Log { entry, .. } => entry.name.to_string(),
                    ExecEvent::Exception { exception, .. } => exception.note,
                    ExecEvent::Started { .. } => "START".to_owned(),
                    ExecEvent::Reattached { .. } => "REATTACHED".to_owned(),
                    ExecEvent::CaughtUp { .. } => "CAUGHT-UP".to_owned(),
                    ExecEvent::PartlyReleased { ranks, .. } => format!("RELEASED {ranks}"),
                    ExecEvent::Released { .. } => "RELEASE".to_owned(),
                    other => format!("{other:?}"),
                });
            }
            events
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            for pid in self.shepherd.tasks.keys().copied().collect::<Vec<_>>() {
                self.shepherd.signal_process(pid, Signal::KILL, Reach::Group);
            }
            self.shepherd.forker.dismiss();
        }
    }

    #[test]
    fn a_job_is_not_started_before_it_is_claimed() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start.clone())));
        bench.shepherd.next_slice();
        bench.command(JobCommand::Tasks { id: ID });
        bench.request(ShepherdRequest::List);
        assert_eq!(bench.events(), ["0 tasks"]);
        assert!(bench.shepherd.jobs.contains_key(&ID) && bench.tasks(ID).is_empty());
        // A manager that reconnects meanwhile finds the job, and it is not started twice.
        let again = StartJob { reattach: true, ..start };
        bench.request(ShepherdRequest::Start(Box::new(again)));
        assert_eq!(
            bench.events(),
            ["REATTACHED", "init", "starting", "CAUGHT-UP", "reattach"],
            "it is known already"
        );
        bench.claimed();
        assert_eq!(bench.tasks(ID).len(), 1);
        assert_eq!(bench.events(), ["START", "shell.init", "shell.start"]);
    }

    #[test]
    fn the_first_entries_are_sent_with_what_the_first_slice_comes_to() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        assert_eq!(bench.events(), [""; 0]);
        bench.claimed();
        let all = ["init", "starting", "START", "shell.init", "shell.start"];
        assert_eq!(bench.events(), all);
        // A launch that isn't complete after one slice shows that it has begun: this one waits until its program is
        // executed, which may be on a file system that doesn't answer.
        let id = JobId::new(2);
        let start = bench.job(id);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claim();
        let _entered = bench.runtime.enter();
        bench.shepherd.next_slice();
        drop(_entered);
        assert_eq!(bench.events(), ["init", "starting"]);
        // So does a launch that fails before.
        let id = JobId::new(3);
        let start = bench.job(id);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.cancel(id, KillPolicy::default());
        let note = "canceled before all of its tasks were started";
        assert_eq!(bench.events(), ["init", "starting", note, "done", "RELEASE"]);
    }

    #[test]
    fn a_replaced_manager_gets_no_more_events() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start.clone())));
        let (outbox, newer) = unbounded_channel();
        bench.shepherd.greet(2, outbox);
        bench.claimed();
        assert_eq!(bench.events(), [""; 0]);
        bench.replies = newer;
        bench.request(ShepherdRequest::Start(Box::new(start)));
        let all = ["init", "starting", "START", "shell.init", "shell.start"];
        assert_eq!(bench.events(), all, "the newer one gets all events");
    }

    #[test]
    fn the_time_to_give_up_begins_with_the_first_kill() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claimed();
        // The second kill is minutes away.
        let kill = KillPolicy {
            kill_timeout: 600.0,
            max_kill_timeout: Some(0.001),
            shortest_pause: 0.001,
            ..KillPolicy::default()
        };
        bench.cancel(ID, kill);
        let Bench { runtime, shepherd, messages, .. } = &mut bench;
        runtime.block_on(async {
            shepherd.kill_round(ID);
            let given_up = async {
                while !matches!(messages.recv().await, Some(Message::GiveUp { id: ID })) {}
            };
            tokio::time::timeout(Duration::from_secs(30), given_up).await.unwrap();
        });
    }

    #[test]
    fn log_entries_have_the_current_time() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        let begin = crate::clock::now().as_secs();
        assert!(begin > 1.7e9, "{begin} is not in seconds since 1970");
        bench.request(ShepherdRequest::Start(Box::new(start)));
        let end = crate::clock::now().as_secs();
        // The entry is sent later, but has the time of its event.
        bench.claimed();
        bench.replies.try_recv().unwrap();
        let ShepherdMessage::Event(ExecEvent::Log { entry, .. }) =
            bench.replies.try_recv().unwrap()
        else {
            panic!("no log entry");
        };
        let time = entry.timestamp.as_secs();
        assert!((begin..=end).contains(&time), "{time} is not in {begin}..={end}");
    }

    #[test]
    fn a_shepherd_is_idle_only_without_jobs_and_manager() {
        let mut bench = Bench::new();
        assert!(!bench.shepherd.is_idle(), "a manager is there");
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.shepherd.detach_manager();
        assert!(!bench.shepherd.is_idle(), "a job is there");
        bench.shepherd.jobs.clear();
        assert!(bench.shepherd.is_idle());
    }

    #[test]
    fn a_signal_to_a_job_that_is_being_claimed_reaches_its_tasks() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        let signal = "USR2".parse().unwrap();
        for _ in 0..2 {
            bench.command(JobCommand::Signal { id: ID, signal, reach: Reach::Group });
        }
        bench.claimed();
        bench.ended(ID);
        let status = (128 + 12) << 8;
        let finished = format!("{:?}", ExecEvent::Finished { id: ID, status });
        assert!(bench.events().contains(&finished));
    }

    #[test]
    fn a_job_that_is_canceled_while_it_is_claimed_is_never_started() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.cancel(ID, KillPolicy::default());
        let note = "canceled before all of its tasks were started";
        assert_eq!(bench.events(), ["init", "starting", note, "done", "RELEASE"]);
        bench.command(JobCommand::Ack { id: ID });
        assert!(bench.shepherd.jobs.is_empty());
        bench.claimed();
        assert!(bench.shepherd.tasks.is_empty() && bench.events().is_empty());
    }

    #[test]
    fn a_job_that_is_canceled_while_its_process_is_started_ends_with_that_process() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claim();
        let entered = bench.runtime.enter();
        bench.shepherd.next_slice();
        drop(entered);
        bench.cancel(ID, KillPolicy::default());
        let note = "canceled before all of its tasks were started";
        assert_eq!(bench.events(), ["init", "starting", note], "its process may be there already");
        bench.ended(ID);
        assert_eq!(bench.events(), ["done", "RELEASE"]);
        assert!(bench.shepherd.tasks.is_empty());
    }

    #[test]
    fn a_job_acknowledged_while_it_is_claimed_still_runs() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.command(JobCommand::Ack { id: ID });
        bench.claimed();
        assert_eq!(bench.tasks(ID).len(), 1);
    }

    #[test]
    fn a_job_of_many_tasks_lets_others_start_between_its_tasks() {
        let mut bench = Bench::new();
        let shell_options = serde_json::json!({"output": {"stdout": {"path": "out"}}});
        let nodes = vec![NodeTasks { rank: 0, ntasks: 300 }];
        let many = StartJob { ntasks: 300, nodes, shell_options, ..bench.job(ID) };
        bench.request(ShepherdRequest::Start(Box::new(many)));
        let one = bench.job(JobId::new(2));
        bench.request(ShepherdRequest::Start(Box::new(one)));
        bench.until(|shepherd| matches!(shepherd.jobs[&JobId::new(2)].state, State::Running));
        assert_eq!(bench.tasks(JobId::new(2)).len(), 1);
        let first = bench.tasks(ID).len();
        assert!(first < 300, "{first} tasks of the first job run");
    }

    #[test]
    fn a_part_of_a_job_has_the_tasks_of_its_node() {
        let mut bench = Bench::new();
        let nodes = [(3, 2), (5, 3)].map(|(rank, ntasks)| NodeTasks { rank, ntasks });
        let part = StartJob { ntasks: 5, nodes: nodes.into(), part: Some(1), ..bench.job(ID) };
        bench.request(ShepherdRequest::Start(Box::new(part)));
        bench.claimed();
        let mut ranks: Vec<u32> =
            bench.shepherd.jobs[&ID].tasks.running().map(|(_, rank)| rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [2, 3, 4]);
    }

    #[test]
    fn a_task_that_may_have_run_is_not_started_again() {
        let mut bench = Bench::new();
        let lost = "task 0: the forker has died while it started it";
        let (perhaps, never): (fn() -> NotForked, _) =
            (|| NotForked::Lost, (|| NotForked::Again) as fn() -> NotForked);
        for (id, why, attempts) in [(1, perhaps, 1), (2, never, ATTEMPTS)] {
            let id = JobId::new(id);
            // A command that ends by itself, since the bench knows nothing of its processes.
            let start = StartJob { command: vec!["true".to_owned()], ..bench.job(id) };
            bench.request(ShepherdRequest::Start(Box::new(start)));
            bench.claim();
            let _entered = bench.runtime.enter();
            for attempt in 1..=attempts {
                assert_eq!(bench.shepherd.starting, [id], "attempt {attempt}");
                bench.shepherd.next_slice();
                bench.shepherd.not_forked(id, why());
            }
            drop(_entered);
            assert!(bench.shepherd.starting.is_empty(), "not once more");
            assert_eq!(bench.events(), ["init", "starting", lost, "done", "RELEASE"]);
        }
    }

    #[test]
    fn the_time_until_a_program_is_executed_is_bounded() {
        let mut bench = Bench::new();
        // With limits a process has steps of its own before it executes its program.
        let limits = serde_json::json!({"rlimit": {"nofile": 99}});
        let start = StartJob { shell_options: limits, ..bench.job(ID) };
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claim();
        let started = |shepherd: &Shepherd| {
            let State::Launching(launch) = &shepherd.jobs[&ID].state else { return None };
            let Step::Executing(executing) = &launch.step else { return None };
            executing.pid
        };
        bench.until(|shepherd| started(shepherd).is_some());
        // The process executes its program, but the shepherd is told that it hasn't done so in time.
        let pid = started(&bench.shepherd).unwrap();
        bench.shepherd.executed(ID, pid, ExecResult::Late);
        let late = "task 0: its program was not executed within 300 s";
        bench.ended(ID);
        assert_eq!(bench.events(), ["init", "starting", late, "done", "RELEASE"]);
    }
}
