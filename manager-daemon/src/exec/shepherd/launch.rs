//! Launches a job, or attaches a known job to the manager that requests it.
//!
//! A launch has several steps: the job is claimed, then its files are prepared, then its tasks are
//! started. Messages that are handled between the steps find the job with none or some of its tasks
//! running.

use std::time::{Duration, Instant};

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::UnboundedSender;

use super::actor::Actor;
use super::claims::Claimed;
use super::devices::Devices;
use super::job::{Executing, Job, Launch, Stage};
use super::message::{Execution, Message};
use super::option_shapes;
use super::placement::task_map;
use super::pmi;
use super::processes::reap::send;
use super::rlimits::TaskLimits;
use super::spawn::{Launcher, SpawnError, Spawned, program_of, settle_directory};
use super::state::Shepherd;
use super::streams::capture;
use super::streams::input::JobInput;
use super::streams::options::{ExitOptions, Input, IoOptions, files_per_task};
use super::streams::taskio::JobIo;
use super::system_error::plain;
use crate::exec::protocol::{ShepherdMessage, decode_data};
use crate::exec::{SHEPHERD_LOST, StartJob};

/// How long one job is launched before others get their turn. Starting a task takes about a millisecond,
/// so most jobs are launched in one slice.
const SLICE: Duration = Duration::from_millis(5);

/// What a slice of a launch has come to.
enum Slice {
    /// The rest is for another slice.
    Paused(Launch),
    /// The launch goes on when a new process executes its program.
    Waits(Launch),
    /// All tasks run, or the job has failed.
    Complete,
}

impl Shepherd {
    /// Serves a start request. A job is launched once, however often it is requested.
    pub(super) fn start_or_attach(&mut self, mut start: StartJob) {
        let outbox = self.outbox();
        if let Some(known) = self.jobs.get_mut(&start.id) {
            known.attach(outbox, start.reattach, start.seen);
            return;
        }
        if start.reattach || self.claims.is_earlier(start.id) {
            self.report_lost(&start);
            return;
        }
        self.keep_running();
        let id = start.id;
        // A map may be in a file of the user.
        let mapped = Actor::of(&start).and_then(|actor| {
            start.taskmap = actor.try_act(|| task_map(&start))?;
            Ok(actor)
        });
        let mut job = Job::new(&start, outbox);
        // Its claim takes a sync of the disk. What is logged before is sent with what its first slice comes to, so
        // that the manager commits it together.
        job.hold_back();
        job.log("init", None);
        job.log("starting", None);
        let begun = mapped.and_then(|actor| Ok((self.begin(&start, &mut job)?, actor)));
        match begun {
            Ok(((limits, pmi, devices), actor)) => {
                let pmi = pmi.then(|| self.pmi.job(&start, &self.inbox));
                let launch = Launch {
                    start,
                    limits,
                    actor,
                    pmi,
                    devices,
                    program: None,
                    executing: None,
                    stage: None,
                };
                job.launch = Some(Box::new(launch));
            }
            Err(note) => job.fail(note),
        }
        self.jobs.insert(id, job);
        self.end_if_done(id);
    }

    fn report_lost(&self, start: &StartJob) {
        let id = start.id;
        let Some(outbox) = self.outbox() else { return };
        if !start.seen.finished {
            let note = match start.reattach {
                true => "job is lost: the shepherd that ran it is gone",
                false => {
                    "job is lost: a shepherd that is gone began to start it; as it may have run, it \
                     is not started again"
                }
            };
            let (note, reason) = (note.to_owned(), SHEPHERD_LOST.to_owned());
            let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Lost { id, note, reason }));
        }
        let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Released { id }));
    }

    /// Requests the job's claim, and accepts input for the job from now on. Returns the limits of its tasks, whether
    /// they have PMI, and their CPUs and GPUs. The error is for the user.
    fn begin(
        &mut self,
        start: &StartJob,
        job: &mut Job,
    ) -> Result<(TaskLimits, bool, Devices), String> {
        option_shapes::check(&start.shell_options)?;
        if IoOptions::parse(&start.shell_options)?.input == Input::Service {
            job.input = Some(JobInput::of_clients(start.ntasks));
        }
        job.exit_options = ExitOptions::parse(&start.shell_options)?;
        let limits = TaskLimits::parse(&start.shell_options, self.open_files)?;
        let requested = pmi::is_requested(&start.shell_options)?;
        // Most jobs have one task, for which the files need not be counted.
        let counted = (start.ntasks > 1).then(|| files_per_task(&start.shell_options)).flatten();
        let (files, most) = (counted.unwrap_or_default(), self.open_files.own());
        let pmi = pmi::is_wanted(requested, start.ntasks, files, most);
        let devices = Devices::of(start)?;
        self.claims.claim(start.id);
        Ok((limits, pmi, devices))
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
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.launch.is_some()) else {
                continue;
            };
            match &outcome {
                Ok(()) => self.starting.push_back(id),
                Err(note) => {
                    job.launch = None;
                    job.fail(note.clone());
                    self.end_if_done(id);
                }
            }
        }
    }

    /// Continues the launch that has waited longest, for one slice.
    pub(super) fn next_slice(&mut self) {
        let Some(id) = self.starting.pop_front() else { return };
        // Taken out of the map, so that `launch_slice` can borrow the job and the shepherd. It is put back
        // before this method returns.
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let Some(launch) = job.launch.take() else {
            // It was canceled.
            self.jobs.insert(id, job);
            return;
        };
        let slice = self.launch_slice(*launch, &mut job);
        job.send();
        match slice {
            Ok(Slice::Paused(rest)) => {
                job.launch = Some(Box::new(rest));
                self.starting.push_back(id);
                self.jobs.insert(id, job);
                return;
            }
            Ok(Slice::Waits(rest)) => {
                job.launch = Some(Box::new(rest));
                self.jobs.insert(id, job);
                return;
            }
            Ok(Slice::Complete) => {}
            Err(note) => {
                job.fail(note);
                job.signal_groups(Signal::KILL);
            }
        }
        self.jobs.insert(id, job);
        self.finish_launch(id);
    }

    /// Prepares files and starts tasks until the slice is over. The error is for the user.
    fn launch_slice(&mut self, launch: Launch, job: &mut Job) -> Result<Slice, String> {
        let until = Instant::now() + SLICE;
        let Launch { mut start, limits, actor, pmi, devices, program, stage, .. } = launch;
        let mut elsewhere = None;
        if stage.is_none() {
            job.dir = self.job_dirs.make(&start, &actor)?;
            start.tmpdir = job.dir.as_ref().map(|dir| dir.path().to_owned());
            elsewhere = settle_directory(&mut start, &actor).err();
        }
        let program = program.unwrap_or_else(|| program_of(&start, &actor));
        let launcher = Launcher::new(
            (&start, &program),
            &limits,
            &actor,
            (pmi.as_ref(), &devices),
            (&self.nonce, self.open_files),
        );
        let mut stage = match stage {
            Some(stage) => stage,
            None => {
                let stage = self.open_shared_files(&start, &limits, &actor, job)?;
                if let (Stage::Files(io, _) | Stage::Tasks(io, _), Some(why)) = (&stage, elsewhere)
                {
                    io.error(&format!("host {}: {why}", host_name()));
                }
                if pmi.is_none()
                    && let (Stage::Files(io, _) | Stage::Tasks(io, _), Ok(None)) =
                        (&stage, pmi::is_requested(&start.shell_options))
                {
                    io.warn("pmi", "too few open files for PMI; -o pmi=simple asks for it");
                }
                stage
            }
        };
        loop {
            stage = match stage {
                Stage::Files(io, rank) if rank == start.ntasks => {
                    io.flush_log().map_err(cannot_write)?;
                    Stage::Tasks(io, 0)
                }
                Stage::Files(io, rank) => {
                    io.prepare(&start, rank)?;
                    Stage::Files(io, rank + 1)
                }
                Stage::Tasks(io, rank) if rank == start.ntasks => {
                    io.flush_log().map_err(cannot_write)?;
                    job.log_start();
                    job.log_taskmap();
                    return Ok(Slice::Complete);
                }
                Stage::Tasks(io, rank) => match launcher.spawn(rank, &io) {
                    Ok(mut spawned) => {
                        // Registered before the next step that can fail: a running task that isn't
                        // registered would be neither killed nor reported.
                        self.tasks.insert(spawned.pid, start.id);
                        job.running.push((spawned.pid, rank));
                        if let Some(outcome) = spawned.outcome.take() {
                            let (id, pid, inbox) = (start.id, spawned.pid, self.inbox.clone());
                            let patience = self.patience;
                            tokio::spawn(async move {
                                let execution = outcome.wait(patience).await;
                                // Fails only if the shepherd has ended.
                                let _ = inbox.send(Message::Executed { id, pid, execution });
                            });
                            let stage = Some(Stage::Tasks(io, rank + 1));
                            let executing = Some(Executing { rank, spawned });
                            let program = Some(program);
                            return Ok(Slice::Waits(Launch {
                                start,
                                limits,
                                actor,
                                pmi,
                                devices,
                                program,
                                executing,
                                stage,
                            }));
                        }
                        start_pumps(rank, spawned, job, &self.inbox)?;
                        Stage::Tasks(io, rank + 1)
                    }
                    Err(error) => {
                        io.flush_log().map_err(cannot_write)?;
                        not_started(job, rank, error)?;
                        return Ok(Slice::Complete);
                    }
                },
            };
            let all = matches!(&stage, Stage::Tasks(_, rank) if *rank == start.ntasks);
            if !all && Instant::now() >= until {
                if let Stage::Files(io, _) = &stage {
                    // Writes the entries about the prepared files, so that they don't gather in memory.
                    io.flush_log().map_err(cannot_write)?;
                }
                let (stage, program) = (Some(stage), Some(program));
                return Ok(Slice::Paused(Launch {
                    start,
                    limits,
                    actor,
                    pmi,
                    devices,
                    program,
                    executing: None,
                    stage,
                }));
            }
        }
    }

    /// Continues a launch when it is known whether the last process that it started executes its program.
    pub(super) fn executed(&mut self, id: JobId, pid: Pid, execution: Execution) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // The job may have been canceled meanwhile.
        let Some(launch) = &mut job.launch else { return };
        let Some(Executing { rank, spawned }) =
            launch.executing.take_if(|executing| executing.spawned.pid == pid)
        else {
            return;
        };
        let outcome = match execution {
            Execution::Done => match start_pumps(rank, spawned, job, &self.inbox) {
                Ok(()) => {
                    self.starting.push_back(id);
                    return;
                }
                failed => failed,
            },
            Execution::Refused(errno) => {
                let error = Launcher::refused(&launch.start, errno);
                let flushed = launch.flush_log().map_err(cannot_write);
                self.tasks.remove(&pid);
                if job.not_executed(pid) {
                    // The user may have stopped it before its end.
                    send(pid, Signal::KILL);
                }
                flushed.and_then(|()| not_started(job, rank, error))
            }
            Execution::Late => {
                let seconds = self.patience.as_secs();
                Err(format!("task {rank}: its program was not executed within {seconds} s"))
            }
        };
        job.launch = None;
        if let Err(note) = outcome {
            job.fail(note);
        }
        job.signal_groups(Signal::KILL);
        self.finish_launch(id);
    }

    /// Creates the output log and opens the files that all tasks share. The error is for the user.
    fn open_shared_files(
        &mut self,
        start: &StartJob,
        limits: &TaskLimits,
        actor: &Actor,
        job: &mut Job,
    ) -> Result<Stage, String> {
        let io = JobIo::create(start, actor, &self.output)?;
        job.output = Some(io.log());
        if start.takes_output {
            self.holds_output(start.id);
        }
        for warning in limits.warnings() {
            io.warn("rlimit", &warning);
        }
        if let Some(file) = io.input_file() {
            let (path, made) = (file.to_string_lossy(), self.input.create(start.id));
            let input = made.and_then(|made| JobInput::redirected(made, start.ntasks, &path));
            job.input = Some(input.map_err(cannot_keep)?);
        }
        Ok(if io.has_own_files() { Stage::Files(io, 0) } else { Stage::Tasks(io, 0) })
    }

    /// Handles the end of a launch, successful or not.
    fn finish_launch(&mut self, id: JobId) {
        let signals = self.jobs.get_mut(&id).map(|job| {
            job.report_exits();
            std::mem::take(&mut job.signals)
        });
        for signal in signals.into_iter().flatten() {
            self.signal(id, signal);
        }
        self.time_first_exit(id);
        self.end_if_done(id);
    }

    /// Ends the launch of a canceled job: its remaining tasks are not started.
    pub(super) fn end_launch(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id)
            && job.launch.take().is_some()
        {
            job.fail("canceled before all of its tasks were started".to_owned());
        }
    }

    /// Sends a signal to all processes of a job; if it is being launched, after the launch.
    pub(super) fn signal_when_launched(&mut self, id: JobId, signal: Signal) {
        match self.jobs.get_mut(&id) {
            Some(job) if job.launch.is_some() => {
                if !job.signals.contains(&signal) {
                    job.signals.push(signal);
                }
            }
            _ => self.signal(id, signal),
        }
    }

    /// Serves a request with input for a job.
    pub(super) fn add_input(&mut self, id: JobId, rank: Option<u32>, data: &str, eof: bool) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(input) = &mut job.input else { return };
        let Ok(data) = decode_data(data) else { return };
        match input.add(rank, &data, eof, || self.input.create(id)) {
            Ok(pumps) => job.pumps.extend(pumps),
            Err(error) => job.inform(format!("input lost: {}", plain(&error))),
        }
    }
}

fn cannot_write(error: std::io::Error) -> String {
    format!("cannot write output: {}", plain(&error))
}

fn cannot_keep(error: std::io::Error) -> String {
    format!("cannot keep the input: {}", plain(&error))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Handles a task that could not be started. The error is for the user.
fn not_started(job: &mut Job, rank: u32, error: SpawnError) -> Result<(), String> {
    match error {
        SpawnError::System(text) => Err(format!("task {rank}: {text}")),
        SpawnError::Command { exit_code, message } => {
            let host = host_name();
            let note = format!("task {rank} (host {host}): start failed: {message}");
            job.command_failed(exit_code, note);
            job.signal_groups(Signal::KILL);
            Ok(())
        }
    }
}

/// Starts to copy a task's input and output.
fn start_pumps(
    rank: u32,
    spawned: Spawned,
    job: &mut Job,
    inbox: &UnboundedSender<Message>,
) -> Result<(), String> {
    job.pumps.extend(spawned.pmi);
    job.pumps.extend(spawned.terminal.as_ref().map(|terminal| terminal.copying.clone()));
    job.terminals.extend(spawned.terminal);
    for stream in spawned.captures {
        let pump = capture::start(job.id, stream, inbox)
            .map_err(|error| format!("task {rank}: cannot capture output: {}", plain(&error)))?;
        job.pumps.push(pump);
        job.open_streams += 1;
    }
    if let (Some(input), Some(pipe)) = (&mut job.input, spawned.input) {
        let pump = input
            .serve(rank, pipe)
            .map_err(|error| format!("task {rank}: cannot pass input: {}", plain(&error)))?;
        job.pumps.extend(pump);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitOptions, waitpid};
    use tempfile::TempDir;
    use tokio::runtime::Runtime;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::exec::protocol::ShepherdRequest;
    use crate::exec::{KillPolicy, NodeTasks};
    use crate::open_files::OpenFiles;

    const ID: JobId = JobId::new(1);

    /// A shepherd whose loop is run by the test, and the replies to its manager.
    ///
    /// It reaps no processes, because other tests of this process have children too.
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
            let mut shepherd = Shepherd::new(dir, nonce, open_files, inbox).unwrap();
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

        /// Waits until jobs are claimed, and has all of them started.
        fn claimed(&mut self) {
            let _entered = self.runtime.enter();
            let claimed = loop {
                if let Message::Claimed(claimed) = self.messages.blocking_recv().unwrap() {
                    break claimed;
                }
            };
            self.shepherd.claimed(claimed);
            while !self.shepherd.starting.is_empty() {
                self.shepherd.next_slice();
            }
        }

        fn tasks(&self, id: JobId) -> Vec<Pid> {
            self.shepherd
                .jobs
                .get(&id)
                .map_or_else(Vec::new, |job| job.running.iter().map(|(pid, _)| *pid).collect())
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
            for pid in self.shepherd.tasks.keys() {
                send(*pid, Signal::KILL);
                let _ = waitpid(Some(*pid), WaitOptions::empty());
            }
        }
    }

    #[test]
    fn a_job_is_not_started_before_it_is_claimed() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start.clone())));
        bench.shepherd.next_slice();
        bench.request(ShepherdRequest::Tasks { id: ID });
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
        let limits = serde_json::json!({"rlimit": {"nofile": 99}});
        let start = StartJob { shell_options: limits, ..bench.job(id) };
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claimed();
        assert_eq!(bench.events(), ["init", "starting"]);
        // So does one that fails before.
        let id = JobId::new(3);
        let start = bench.job(id);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.request(ShepherdRequest::Cancel { id, signum: 15, kill: KillPolicy::default() });
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
        bench.request(ShepherdRequest::Cancel { id: ID, signum: 15, kill });
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
        // The entry is sent later, and has the time of what it is about.
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
        for signum in [12, 12] {
            bench.request(ShepherdRequest::Signal { id: ID, signum });
        }
        bench.claimed();
        let pid = bench.tasks(ID)[0];
        let begin = Instant::now();
        let (_, status) = loop {
            match waitpid(Some(pid), WaitOptions::NOHANG).unwrap() {
                Some(ended) => break ended,
                None => assert!(begin.elapsed() < Duration::from_secs(30), "it runs on"),
            }
            std::thread::yield_now();
        };
        bench.shepherd.tasks.remove(&pid);
        assert_eq!(status.terminating_signal(), Some(12));
    }

    #[test]
    fn a_job_that_is_canceled_while_it_is_claimed_is_never_started() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.request(ShepherdRequest::Cancel { id: ID, signum: 15, kill: KillPolicy::default() });
        let note = "canceled before all of its tasks were started";
        assert_eq!(bench.events(), ["init", "starting", note, "done", "RELEASE"]);
        bench.request(ShepherdRequest::Ack { id: ID });
        assert!(bench.shepherd.jobs.is_empty());
        bench.claimed();
        assert!(bench.shepherd.tasks.is_empty() && bench.events().is_empty());
    }

    #[test]
    fn a_job_acknowledged_while_it_is_claimed_still_runs() {
        let mut bench = Bench::new();
        let start = bench.job(ID);
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.request(ShepherdRequest::Ack { id: ID });
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
        let ids = vec![ID, JobId::new(2)];
        let one = bench.job(JobId::new(2));
        bench.request(ShepherdRequest::Start(Box::new(one)));
        let runtime = bench.runtime.handle().clone();
        let _entered = runtime.enter();
        bench.shepherd.claimed(Claimed { ids, outcome: Ok(()) });
        bench.shepherd.next_slice();
        bench.shepherd.next_slice();
        let (first, second) = (bench.tasks(ID).len(), bench.tasks(JobId::new(2)).len());
        assert!((1..300).contains(&first), "{first} tasks of the first job run");
        assert_eq!(second, 1);
    }

    #[test]
    fn the_time_until_a_program_is_executed_is_bounded() {
        let mut bench = Bench::new();
        let limits = serde_json::json!({"rlimit": {"nofile": 99}});
        let start = StartJob { shell_options: limits, ..bench.job(ID) };
        bench.request(ShepherdRequest::Start(Box::new(start)));
        bench.claimed();
        let pid = bench.tasks(ID)[0];
        // The process executes its program, but the shepherd hears that it hasn't done so in time.
        let _entered = bench.runtime.enter();
        bench.shepherd.executed(ID, pid, Execution::Late);
        let status = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        assert_eq!(status.terminating_signal(), Some(9));
        bench.shepherd.tasks.remove(&pid);
        drop(_entered);
        let late = "task 0: its program was not executed within 300 s";
        assert_eq!(bench.events(), ["init", "starting", late]);
    }
}
