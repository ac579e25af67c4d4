//! The shepherd's record of one job, from its start until the manager has acknowledged its end.
//!
//! It retains every event, so that a restarted manager gets those that it has not seen.

use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::engine::{Exception, ExecEvent};
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::{JobId, TaskMap, signal_text};
use jobtap_core::resource::Idset;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::actor::Actor;
use super::devices::Devices;
use super::files::jobdir::JobDir;
use super::placement::place;
use super::pmi::Pmi;
use super::processes::group::Group;
use super::rlimits::TaskLimits;
use super::spawn::Spawned;
use super::streams::input::JobInput;
use super::streams::options::ExitOptions;
use super::streams::pty::Terminal;
use super::streams::taskio::{JobIo, SharedLog, lock};
use super::template::f58_for;
use crate::clock::now;
use crate::exec::protocol::ShepherdMessage;
use crate::exec::{INFORMATIONAL, KillPolicy, NodeTasks, Seen, StartJob};

/// The wait status of a canceled job whose tasks all exited with status 0.
const CANCELED: i32 = 1 << 8;

/// How far the killing of a canceled job has come.
#[derive(Debug)]
pub(super) struct Cancel {
    pub(super) policy: KillPolicy,
    /// How often the kill signal was sent.
    pub(super) kills: u32,
    /// Whether a kill round has passed since the last task was reaped.
    pub(super) draining: bool,
    /// Whether it was reported that the job can't be killed.
    given_up: bool,
}

impl Cancel {
    pub(super) fn new(policy: KillPolicy) -> Self {
        Self { policy, kills: 0, draining: false, given_up: false }
    }
}

/// Makes the context of an event with these keys, in this order.
fn context<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The exit of a task.
struct Exit {
    pid: Pid,
    rank: u32,
    status: WaitStatus,
}

/// A launch that is not complete.
pub(super) struct Launch {
    pub(super) start: StartJob,
    pub(super) limits: TaskLimits,
    /// The user as whom its files are opened and its tasks run.
    pub(super) actor: Actor,
    /// What its tasks share to find each other, if they do.
    pub(super) pmi: Option<Pmi>,
    /// The CPUs and GPUs of its tasks.
    pub(super) devices: Devices,
    /// The program of the tasks, once it was looked for.
    pub(super) program: Option<Result<PathBuf, Errno>>,
    /// The task whose process was started and may not execute the program yet. The launch goes on when it does.
    pub(super) executing: Option<Executing>,
    /// How far it has come; `None` while no file was made and no task started, because the job is being
    /// claimed or waits for its turn.
    pub(super) stage: Option<Stage>,
}

impl Launch {
    /// Writes the first entries of the output log.
    pub(super) fn flush_log(&self) -> std::io::Result<()> {
        match &self.stage {
            Some(Stage::Files(io, _) | Stage::Tasks(io, _)) => io.flush_log(),
            None => Ok(()),
        }
    }
}

/// A process that was started to execute a task's program.
pub(super) struct Executing {
    pub(super) rank: u32,
    pub(super) spawned: Spawned,
}

/// How far a launch has come.
pub(super) enum Stage {
    /// The output files of the tasks from this rank on still have to be prepared.
    Files(JobIo, u32),
    /// The tasks from this rank on still have to be started.
    Tasks(JobIo, u32),
}

/// The first task of a job that has exited.
struct FirstExit {
    rank: u32,
    /// `Exit 1`, or the name of the signal.
    how: String,
    /// As of `wait`(2).
    status: i32,
    /// Whether the time for the others runs already.
    timed: bool,
}

/// A job's processes, output and history.
pub(super) struct Job {
    pub(super) id: JobId,
    nodes: Vec<NodeTasks>,
    taskmap: TaskMap,
    /// The channel to the manager, once it has sent a start request for this job.
    outbox: Option<UnboundedSender<ShepherdMessage>>,
    history: Vec<ExecEvent>,
    /// How many events of the history were sent, or were not because no manager was there.
    sent: usize,
    /// Whether events are held back until the next [`send`](Self::send).
    held_back: bool,
    /// The rest of the launch, until all tasks are started.
    pub(super) launch: Option<Box<Launch>>,
    /// Signals to send when all tasks are started.
    pub(super) signals: Vec<Signal>,
    /// Tasks that exited before all were started; their exits are reported after the job's start.
    unreported_exits: Vec<Exit>,
    /// Tasks not yet reaped, with their ranks. Each leads a process group.
    pub(super) running: Vec<(Pid, u32)>,
    /// The process groups of tasks that have exited and left processes in them.
    pub(super) left: Vec<Group>,
    /// Captured streams that have not ended.
    pub(super) open_streams: usize,
    /// Work to stop when the job ends.
    pub(super) pumps: Vec<AbortHandle>,
    /// The terminals of its tasks.
    pub(super) terminals: Vec<Terminal>,
    pub(super) input: Option<JobInput>,
    /// The log of its output, until it ends.
    pub(super) output: Option<SharedLog>,
    pub(super) dir: Option<JobDir>,
    pub(super) cancel: Option<Cancel>,
    /// What the end of one task means for the others.
    pub(super) exit_options: ExitOptions,
    /// The name of the command, for messages.
    program: String,
    /// The name of the service that Flux's job shell would register.
    service: String,
    first_exit: Option<FirstExit>,
    /// How the job is killed when the shepherd ends it without a manager.
    pub(super) kill: KillPolicy,
    /// Whether a manager has acknowledged it; then no manager will request it again, not even when it
    /// ends.
    pub(super) acknowledged: bool,
    status: i32,
    /// Whether a task has ended the others. Its exit is that of the job then, and not what became of them.
    decided: bool,
    exit_reported: bool,
    failure_reported: bool,
    failed: bool,
    ended: bool,
}

/// The name of the program that a command runs.
fn program(command: &[String]) -> String {
    let path = command.first().map(String::as_str).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

impl Job {
    pub(super) fn new(job: &StartJob, outbox: Option<UnboundedSender<ShepherdMessage>>) -> Self {
        Self {
            id: job.id,
            nodes: job.nodes.clone(),
            taskmap: job.taskmap.clone(),
            outbox,
            history: Vec::new(),
            sent: 0,
            held_back: false,
            launch: None,
            signals: Vec::new(),
            unreported_exits: Vec::new(),
            running: Vec::new(),
            left: Vec::new(),
            open_streams: 0,
            pumps: Vec::new(),
            terminals: Vec::new(),
            input: None,
            output: None,
            dir: None,
            cancel: None,
            exit_options: ExitOptions::default(),
            program: program(&job.command),
            service: format!("{}-shell-{}", job.userid, f58_for(job)),
            first_exit: None,
            kill: job.kill,
            acknowledged: false,
            status: 0,
            decided: false,
            exit_reported: false,
            failure_reported: false,
            failed: false,
            ended: false,
        }
    }

    /// A job that ended under an earlier shepherd.
    pub(super) fn ended_earlier(id: JobId, history: Vec<ExecEvent>) -> Self {
        let mut job = Self::new(&StartJob::new(id), None);
        job.sent = history.len();
        job.history = history;
        job.ended = true;
        job
    }

    /// All events of the job.
    pub(super) fn history(&self) -> &[ExecEvent] {
        &self.history
    }

    /// Whether it was reported that the job can't be killed.
    pub(super) fn is_given_up(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.given_up)
    }

    /// Whether the job has ended: its processes and its directory are gone, only this record is left.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the job still needs its processes. The background processes of a canceled job are not
    /// waited for once its tasks are gone.
    pub(super) fn needs_processes(&self) -> bool {
        !self.ended && (!self.running.is_empty() || self.cancel.is_none())
    }

    fn emit(&mut self, event: ExecEvent) {
        self.history.push(event);
        if !self.held_back {
            self.send();
        }
    }

    /// Holds back the events that follow until the next [`send`](Self::send).
    pub(super) fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Sends the events that were held back.
    pub(super) fn send(&mut self) {
        self.held_back = false;
        let unsent = self.history.get(self.sent..).unwrap_or_default();
        if let Some(outbox) = &self.outbox {
            for event in unsent {
                // Fails only if the manager is gone. The next one gets the event from `history`.
                let _ = outbox.send(ShepherdMessage::Event(event.clone()));
            }
        }
        self.sent = self.history.len();
    }

    /// Adds an entry to the job's exec eventlog.
    pub(super) fn log(&mut self, name: &'static str, context: Option<Map<String, Value>>) {
        let entry = EventEntry::new(now(), name, context);
        self.emit(ExecEvent::Log { id: self.id, entry });
    }

    /// Reports a problem that does not end the job, as a non-fatal exception.
    pub(super) fn inform(&mut self, note: String) {
        let (id, kind) = (self.id, "exec".to_owned());
        self.emit(ExecEvent::Exception {
            id,
            exception: Exception::new(kind, INFORMATIONAL, note),
        });
    }

    /// Reports, once, that the job can't be killed, with the ranks on which tasks of it still run. If
    /// `left`, processes that its tasks started still run, which may be on any of its nodes.
    pub(super) fn give_up(&mut self, left: bool) {
        let Some(cancel) = &mut self.cancel else {
            return;
        };
        let gone = self.running.is_empty() && !left;
        if self.ended || gone || std::mem::replace(&mut cancel.given_up, true) {
            return;
        }
        let node = |(_, rank): &(Pid, u32)| self.nodes.get(place(&self.taskmap, *rank).node);
        let ranks: Idset = if left {
            self.nodes.iter().map(|node| node.rank).collect()
        } else {
            self.running.iter().filter_map(node).map(|node| node.rank).collect()
        };
        let id = self.id;
        let reason = format!("unkillable user processes for job {id}");
        self.emit(ExecEvent::Unkillable { id, ranks, reason });
    }

    /// Records that the job can't be started. It ends when the tasks that were started are gone.
    pub(super) fn fail(&mut self, note: String) {
        self.failed = true;
        let exception = Exception::new("exec", 0, note);
        self.emit(ExecEvent::Exception { id: self.id, exception });
        self.send();
    }

    /// Records that the job's execution has begun.
    pub(super) fn log_start(&mut self) {
        self.emit(ExecEvent::Started { id: self.id });
        let leader = self.nodes.first().map_or(0, |node| node.rank);
        let init = [
            ("service", json!(self.service)),
            ("leader-rank", json!(leader)),
            ("size", json!(self.nodes.len())),
        ];
        self.log("shell.init", Some(context(init)));
    }

    /// Records that the tasks run.
    pub(super) fn log_taskmap(&mut self) {
        let taskmap = json!({"version": 1, "map": self.taskmap.to_value()});
        self.log("shell.start", Some(context([("taskmap", taskmap)])));
    }

    /// Attaches the job to a restarted manager, and sends the events that the manager has not seen. Without
    /// `reattach` the manager requests the start once more, so it gets the events of a start: `Started`, and
    /// neither `Reattached` nor `CaughtUp`.
    pub(super) fn attach(
        &mut self,
        outbox: Option<UnboundedSender<ShepherdMessage>>,
        reattach: bool,
        seen: Seen,
    ) {
        if let Some(outbox) = outbox.as_ref().filter(|_| reattach) {
            let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Reattached { id: self.id }));
        }
        let ended = self.ended;
        let (mut entries, mut exceptions) = (0, 0);
        let unseen = self.history.iter().filter(|event| match event {
            ExecEvent::Log { .. } => {
                entries += 1;
                entries > seen.log_entries
            }
            ExecEvent::Exception { .. } | ExecEvent::Lost { .. } => {
                exceptions += 1;
                exceptions > seen.exceptions
            }
            ExecEvent::Started { .. } => !reattach,
            // The finish is stored after the output, or with it.
            ExecEvent::Output { .. } | ExecEvent::Finished { .. } => !seen.finished,
            ExecEvent::Released { .. } => true,
            // Repeated even if the earlier manager handled it: the processes still run.
            ExecEvent::Unkillable { .. } => !ended,
            // These concern the connection to a manager, or are sent by other executors only.
            ExecEvent::Reattached { .. }
            | ExecEvent::CaughtUp { .. }
            | ExecEvent::PartlyReleased { .. } => false,
        });
        if let Some(outbox) = &outbox {
            for event in unseen {
                let _ = outbox.send(ShepherdMessage::Event(event.clone()));
            }
            if reattach {
                let _ = outbox.send(ShepherdMessage::Event(ExecEvent::CaughtUp { id: self.id }));
            }
        }
        self.outbox = outbox;
        self.sent = self.history.len();
        self.held_back = false;
        if reattach && !self.ended {
            self.log("reattach", None);
        }
    }

    /// Stops sending events: the manager is gone.
    pub(super) fn detach(&mut self) {
        self.outbox = None;
    }

    /// Records the exit of the task with process id `pid`.
    pub(super) fn task_exited(&mut self, pid: Pid, status: WaitStatus) {
        let Some(at) = self.running.iter().position(|(task, _)| *task == pid) else {
            return;
        };
        let (_, rank) = self.running.swap_remove(at);
        self.unreported_exits.push(Exit { pid, rank, status });
        // `shell.task-exit` must not precede `shell.start`, which is logged when the launch is complete.
        if self.launch.is_none() {
            self.report_exits();
        }
    }

    /// Forgets a process that hasn't executed its task's program. Returns whether it is still to be reaped.
    pub(super) fn not_executed(&mut self, pid: Pid) -> bool {
        let before = self.running.len();
        self.running.retain(|(task, _)| *task != pid);
        self.unreported_exits.retain(|exit| exit.pid != pid);
        self.running.len() < before
    }

    /// Records the exits that were delayed while other tasks were still to be started.
    pub(super) fn report_exits(&mut self) {
        for exit in std::mem::take(&mut self.unreported_exits) {
            self.report_exit(&exit);
        }
    }

    fn report_exit(&mut self, &Exit { pid, rank, status }: &Exit) {
        let signal = status.terminating_signal();
        // 128 + signal, as Flux's job shell and other shells report it.
        let code = signal.map_or_else(|| status.exit_status().unwrap_or(0), |signal| 128 + signal);
        self.task_ended(rank, code, |context| {
            context.insert("pid".to_owned(), pid.as_raw_pid().into());
            context.insert("wait_status".to_owned(), status.as_raw().into());
            context.insert("signaled".to_owned(), signal.unwrap_or(0).into());
        });
        let how = signal.map_or_else(|| format!("Exit {code}"), signal_text);
        if code != 0 && self.exit_options.on_error {
            let note = self.note(rank, &format!("failed ({how}) and exit-on-error is set"));
            self.decided |= self.fail_others(note, Some(status.as_raw()));
        }
        let status = status.as_raw();
        self.first_exit.get_or_insert(FirstExit { rank, how, status, timed: false });
    }

    /// How long the other tasks may go on. `Some` once, after the first exit.
    pub(super) fn take_exit_timeout(&mut self) -> Option<Duration> {
        let (timeout, first) = (self.exit_options.timeout?, self.first_exit.as_mut()?);
        (!std::mem::replace(&mut first.timed, true)).then_some(timeout)
    }

    /// Fails the job if other tasks still run when their time after the first exit is over.
    pub(super) fn exit_timed_out(&mut self) {
        if let (Some(first), Some(timeout)) = (&self.first_exit, self.exit_options.timeout) {
            let (how, seconds) = (&first.how, timeout.as_secs_f64());
            let what = format!("exited ({how}) and exit-timeout={seconds}s has expired");
            let (note, status) = (self.note(first.rank, &what), first.status);
            self.decided |= self.fail_others(note, Some(status));
        }
    }

    /// What a task did, in the words of Flux's job shell.
    fn note(&self, rank: u32, what: &str) -> String {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{}: task rank {rank} on host {host} {what}", self.program)
    }

    /// Raises a fatal exception, with which the manager ends the tasks that still run. Returns false if no
    /// task runs, or if the job ends already.
    fn fail_others(&mut self, note: String, wait_status: Option<i32>) -> bool {
        if self.ended || self.failed || self.cancel.is_some() || self.running.is_empty() {
            return false;
        }
        // Once is enough.
        self.exit_options = ExitOptions::default();
        let exception = Exception { wait_status, ..Exception::new("exec", 0, note) };
        self.emit(ExecEvent::Exception { id: self.id, exception });
        true
    }

    /// Ends the job because one of its tasks asked for it, in the words of Flux's job shell.
    pub(super) fn aborted(&mut self, why: &str) {
        self.fail_others(format!("PMI_Abort: {why}"), None);
    }

    /// Records that the job's command can't be run: the job starts and fails at once, with the exit code
    /// that a shell uses for that.
    pub(super) fn command_failed(&mut self, exit_code: i32, note: String) {
        self.log_start();
        self.status = self.status.max(exit_code << 8);
        let exception = Exception::new("exec", 0, note);
        self.emit(ExecEvent::Exception { id: self.id, exception });
    }

    /// Logs the first exit and the first failure only, which bounds the eventlog of a job of many tasks.
    fn task_ended(&mut self, rank: u32, code: i32, describe: impl FnOnce(&mut Map<String, Value>)) {
        if !self.decided {
            self.status = self.status.max(code << 8);
        }
        let failure = code != 0;
        if self.failed || (self.exit_reported && (self.failure_reported || !failure)) {
            return;
        }
        self.exit_reported = true;
        self.failure_reported |= failure;
        let mut context = Map::new();
        context.insert("localid".to_owned(), place(&self.taskmap, rank).local.into());
        context.insert("rank".to_owned(), rank.into());
        context.insert("state".to_owned(), "Exited".into());
        describe(&mut context);
        context.insert("exitcode".to_owned(), code.into());
        self.log("shell.task-exit", Some(context));
    }

    /// Ends the job if no task and no stream of it is left. Returns whether it ended by this call.
    pub(super) fn end_if_done(&mut self) -> bool {
        let starts = self.launch.is_some();
        if self.ended || starts || !self.running.is_empty() || self.open_streams > 0 {
            return false;
        }
        let id = self.id;
        // Before the job's finish, so that a client that sees the finish can read the output.
        if let Some(text) = self.output.take().and_then(|log| lock(&log).take_held()) {
            self.emit(ExecEvent::Output { id, text });
        }
        if !self.failed {
            let mut status = self.status;
            let exit = [("rank", json!(0)), ("wait_status", json!(status))];
            self.log("shell-exit", Some(context(exit)));
            if status == 0 && self.cancel.is_some() && !self.decided {
                status = CANCELED;
            }
            self.log("complete", Some(context([("status", json!(status))])));
            self.emit(ExecEvent::Finished { id, status });
        }
        self.log("done", None);
        self.stop_pumps();
        self.input = None;
        // Removed before the release is reported, so that the directory is gone when the manager frees
        // the resources.
        if let Some(dir) = self.dir.take() {
            dir.remove();
        }
        self.emit(ExecEvent::Released { id });
        self.ended = true;
        true
    }

    /// Stops copying streams that processes still have open.
    pub(super) fn stop_pumps(&mut self) {
        self.open_streams = 0;
        for pump in self.pumps.drain(..) {
            pump.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc::unbounded_channel;

    use super::super::files::private_files::PrivateFiles;
    use super::*;

    const ID: JobId = JobId::new(7);

    fn names(events: &[ExecEvent]) -> Vec<String> {
        let name = |event: &ExecEvent| match event {
            ExecEvent::Log { entry, .. } => entry.name.to_string(),
            ExecEvent::Output { .. } => "OUTPUT".to_owned(),
            ExecEvent::Started { .. } => "STARTED".to_owned(),
            ExecEvent::Exception { exception, .. } => format!("EXCEPTION {}", exception.severity),
            ExecEvent::Lost { .. } => "LOST".to_owned(),
            ExecEvent::Unkillable { ranks, .. } => format!("UNKILLABLE {ranks}"),
            ExecEvent::Reattached { .. } => "REATTACHED".to_owned(),
            ExecEvent::CaughtUp { .. } => "CAUGHT-UP".to_owned(),
            ExecEvent::PartlyReleased { ranks, .. } => format!("RELEASED {ranks}"),
            ExecEvent::Finished { status, .. } => format!("FINISHED {status}"),
            ExecEvent::Released { .. } => "RELEASED".to_owned(),
        };
        events.iter().map(name).collect()
    }

    fn job(ntasks: u32) -> Job {
        let nodes = vec![NodeTasks { rank: 0, ntasks }];
        let mut job = Job::new(&StartJob { ntasks, nodes, ..StartJob::new(ID) }, None);
        job.log("init", None);
        job.log("starting", None);
        job
    }

    fn task_ended(job: &mut Job, code: i32) {
        job.task_ended(0, code, |_| {});
    }

    fn seen_by(job: &mut Job, reattach: bool, seen: Seen) -> Vec<String> {
        let (outbox, mut inbox) = unbounded_channel();
        job.attach(Some(outbox), reattach, seen);
        let mut events = Vec::new();
        while let Ok(ShepherdMessage::Event(event)) = inbox.try_recv() {
            events.push(event);
        }
        names(&events)
    }

    #[test]
    fn a_job_ends_with_the_highest_status_of_its_tasks() {
        let mut job = job(3);
        job.log_start();
        job.log_taskmap();
        for code in [0, 126, 3] {
            task_ended(&mut job, code);
        }
        assert!(job.end_if_done());
        assert!(!job.end_if_done(), "only once");
        let expected = "init starting STARTED shell.init shell.start shell.task-exit \
                        shell.task-exit shell-exit complete FINISHED 32256 done RELEASED";
        assert_eq!(names(&job.history).join(" "), expected);
    }

    #[test]
    fn a_job_that_cannot_start_has_no_finish() {
        let mut job = job(1);
        job.fail("no".to_owned());
        job.end_if_done();
        assert_eq!(names(&job.history).join(" "), "init starting EXCEPTION 0 done RELEASED");
    }

    #[test]
    fn a_job_whose_command_cannot_be_run_began_and_failed() {
        let mut job = job(1);
        job.command_failed(127, "no".to_owned());
        job.end_if_done();
        let expected = "init starting STARTED shell.init EXCEPTION 0 shell-exit complete \
                        FINISHED 32512 done RELEASED";
        assert_eq!(names(&job.history).join(" "), expected);
    }

    #[test]
    fn a_canceled_job_does_not_count_as_a_success() {
        let mut job = job(1);
        job.log_start();
        job.log_taskmap();
        job.cancel = Some(Cancel::new(KillPolicy::default()));
        task_ended(&mut job, 0);
        job.end_if_done();
        assert!(names(&job.history).contains(&"FINISHED 256".to_owned()));
    }

    #[test]
    fn what_a_job_has_printed_is_reported_before_its_finish() {
        let state = tempfile::tempdir().unwrap();
        let files = Arc::new(PrivateFiles::of(state.path(), "output").unwrap());
        let start = StartJob { ntasks: 1, takes_output: true, ..StartJob::new(ID) };
        let io = JobIo::create(&start, &Actor::default(), &files).unwrap();
        let mut job = job(1);
        job.output = Some(io.log());
        job.log_start();
        job.end_if_done();
        let expected =
            "init starting STARTED shell.init OUTPUT shell-exit complete FINISHED 0 done RELEASED";
        assert_eq!(names(&job.history).join(" "), expected);
        let seen = |log_entries, finished| Seen { log_entries, exceptions: 0, finished };
        let unseen = seen_by(&mut job, true, seen(5, false)).join(" ");
        assert_eq!(unseen, "REATTACHED OUTPUT FINISHED 0 done RELEASED CAUGHT-UP");
        let unseen = seen_by(&mut job, true, seen(5, true)).join(" ");
        assert_eq!(unseen, "REATTACHED done RELEASED CAUGHT-UP");
    }

    #[test]
    fn a_manager_gets_what_it_has_not_seen() {
        let mut job = job(1);
        job.log_start();
        job.log_taskmap();
        let seen = Seen { log_entries: 3, ..Seen::default() };
        assert_eq!(
            seen_by(&mut job, true, seen),
            ["REATTACHED", "shell.start", "CAUGHT-UP", "reattach"]
        );
        assert_eq!(
            seen_by(&mut job, false, Seen::default()).join(" "),
            "init starting STARTED shell.init shell.start reattach"
        );
        job.inform("x".to_owned());
        task_ended(&mut job, 1);
        job.end_if_done();
        let seen = Seen { log_entries: 9, exceptions: 1, finished: true };
        assert_eq!(seen_by(&mut job, true, seen), ["REATTACHED", "RELEASED", "CAUGHT-UP"]);
        let seen = Seen { log_entries: 8, exceptions: 0, finished: false };
        assert_eq!(
            seen_by(&mut job, true, seen),
            ["REATTACHED", "EXCEPTION 2", "FINISHED 256", "done", "RELEASED", "CAUGHT-UP"]
        );
    }
}
