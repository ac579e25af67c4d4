//! The shepherd's record of one job, from its start until the manager has acknowledged its end.
//!
//! Its [`State`] has the data of each state. What several states need is in parts of the record: its events
//! ([`Journal`]), its processes ([`Tasks`]), their [`Streams`], and the result of their exits ([`Outcome`]).
//!
//! A job on several hosts is one such record in the shepherd of each host, with the tasks of that host: the ranks of
//! tasks and nodes are those of the whole job, and `part` is the host's own. Each shepherd launches, signals and ends
//! its part as if it were the job. The manager's executor makes one job of the parts ([`jobtap_core::engine::parts`]).

mod journal;
mod outcome;
mod state;
mod streams;

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use jobtap_core::engine::{ExecEvent, RaisedException};
use jobtap_core::job::{JobId, Reach, TaskMap};
use jobtap_core::resource::Idset;
use rustix::process::{Pid, Signal};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;

pub(super) use self::journal::{Attach, Journal};
use self::outcome::{Exit, Outcome};
use self::state::Finish;
pub(super) use self::state::{Cancel, Ending, Executing, Launch, Plan, State, Step, TaskRequest};
pub(super) use self::streams::Streams;

use super::exchange::JobExchange;
use super::files::jobdir::JobDir;
use super::host_name::host_name;
use super::pids::tasks::Tasks;
use super::placement::place;
use super::streams::options::ExitOptions;
use super::template::f58_for;
use crate::exec::protocol::ShepherdMessage;
use crate::exec::{KillPolicy, NodeTasks, Seen, StartJob};

/// The wait status of a canceled job whose tasks all exited with status 0.
const CANCELED: i32 = 1 << 8;

/// Makes the context of an event with these keys, in this order.
fn context<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A job's processes, output and events.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) userid: u32,
    nodes: Vec<NodeTasks>,
    part: Option<usize>,
    taskmap: TaskMap,
    /// The name of the command, for messages.
    program: String,
    /// The name of the service that Flux's job shell would register.
    service: String,
    pub(super) state: State,
    pub(super) journal: Journal,
    pub(super) tasks: Tasks,
    pub(super) streams: Streams,
    /// The exchange of its tasks with those of its other nodes, if it has any.
    pub(super) exchange: Option<JobExchange>,
    outcome: Outcome,
    pub(super) dir: Option<JobDir>,
    /// The job after which it was begun, if the manager has handed it over ahead of its turn.
    pub(super) after: Option<JobId>,
    /// How the job is killed when the shepherd ends it without a manager.
    pub(super) kill: KillPolicy,
    /// Whether a manager has acknowledged it; then no manager will request it again, not even when it
    /// ends.
    pub(super) acknowledged: bool,
}

/// The name of the program that a command runs.
fn program(command: &[String]) -> String {
    let path = command.first().map(String::as_str).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

impl Job {
    /// A job without processes, which ends if it isn't [claimed](Self::claim).
    pub(super) fn new(job: &StartJob, outbox: Option<UnboundedSender<ShepherdMessage>>) -> Self {
        Self {
            id: job.id,
            userid: job.userid,
            nodes: job.nodes.clone(),
            part: job.part,
            taskmap: job.taskmap.clone(),
            program: program(&job.command),
            service: format!("{}-shell-{}", job.userid, f58_for(job)),
            state: State::ending(Finish::Never),
            journal: Journal::new(job.id, outbox),
            tasks: Tasks::default(),
            streams: Streams::default(),
            exchange: None,
            outcome: Outcome::default(),
            dir: None,
            after: job.after,
            kill: job.kill,
            acknowledged: false,
        }
    }

    /// A job whose tasks an earlier shepherd has started.
    pub(super) fn running(job: &StartJob) -> Self {
        let mut job = Self { state: State::Running, ..Self::new(job, None) };
        job.log_begin();
        job.log_start();
        job
    }

    /// A job that ended under an earlier shepherd.
    pub(super) fn ended_earlier(id: JobId, events: Vec<ExecEvent>) -> Self {
        Self {
            state: State::Ended,
            journal: Journal::ended_earlier(id, events),
            ..Self::new(&StartJob::new(id), None)
        }
    }

    /// The name of its own directory.
    pub(super) fn dir_name(&self) -> Option<&OsString> {
        self.dir.as_ref().map(JobDir::name)
    }

    /// Whether it was reported that the job can't be killed.
    pub(super) fn is_given_up(&self) -> bool {
        let cancel = self.state.as_ending().and_then(|ending| ending.cancel.as_ref());
        cancel.is_some_and(|cancel| cancel.given_up)
    }

    /// Whether it was begun by itself, and this process has told no manager anything about it.
    pub(super) fn is_unknown_to_managers(&self) -> bool {
        self.after.is_some() && !self.journal.was_attached()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether the job still needs its processes. The background processes of a canceled job are not
    /// waited for once its tasks are gone.
    pub(super) fn needs_processes(&self) -> bool {
        match &self.state {
            State::Claimed(_) | State::Launching(_) | State::Running => true,
            State::Ending(ending) => !self.tasks.are_reaped() || ending.cancel.is_none(),
            State::Ended => false,
        }
    }

    pub(super) fn set_exit_options(&mut self, options: ExitOptions) {
        self.outcome.set_options(options);
    }

    /// Attaches the job to a manager, and sends the events that the manager has not seen.
    pub(super) fn attach(
        &mut self,
        outbox: Option<UnboundedSender<ShepherdMessage>>,
        how: Attach,
        seen: Seen,
    ) {
        let ended = self.has_ended();
        if let (Some(outbox), Some(exchange)) = (&outbox, &self.exchange) {
            exchange.repeated(self.id).for_each(|message| drop(outbox.send(message)));
        }
        self.journal.attach(outbox, how, seen, ended);
    }

    /// Records that the launch of the job has been requested.
    pub(super) fn log_begin(&mut self) {
        self.journal.log("init", None);
        self.journal.log("starting", None);
    }

    /// Records that the job's execution has begun.
    fn log_init(&mut self) {
        self.journal.add(ExecEvent::Started { id: self.id });
        let leader = self.nodes.first().map_or(0, |node| node.rank);
        let init = [
            ("service", json!(self.service)),
            ("leader-rank", json!(leader)),
            ("size", json!(self.nodes.len())),
        ];
        self.journal.log("shell.init", Some(context(init)));
    }

    /// Records that all tasks were started.
    fn log_start(&mut self) {
        self.log_init();
        let taskmap = json!({"version": 1, "map": self.taskmap.to_value()});
        self.journal.log("shell.start", Some(context([("taskmap", taskmap)])));
    }

    /// Enters the state of a job whose claim is being written.
    pub(super) fn claim(&mut self, plan: Plan) {
        self.state = State::Claimed(Box::new(plan));
    }

    /// Takes the plan of a job that was claimed, to begin its launch. The job ends if that fails.
    pub(super) fn take_plan(&mut self) -> Option<Plan> {
        match std::mem::replace(&mut self.state, State::ending(Finish::Never)) {
            State::Claimed(plan) => Some(*plan),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Enters the state of a job whose tasks were all started. Returns the signals to send to them, and, if one of them
    /// has exited already, how long the others may go on.
    pub(super) fn launched(&mut self) -> (Vec<(Signal, Reach)>, Option<Duration>) {
        let state = std::mem::replace(&mut self.state, State::Running);
        let State::Launching(launch) = state else { return (Vec::new(), None) };
        self.log_start();
        (launch.plan.signals, self.report_exits(&launch.exits))
    }

    /// Ends the launch of a job that can't be started. The job ends when the tasks that were started are gone.
    pub(super) fn fail(&mut self, note: String) {
        self.state = State::ending(Finish::Never);
        self.journal.raise(RaisedException::new("exec", 0, note));
        self.journal.send();
    }

    /// Ends the launch of a job whose command can't be run: the job starts and fails at once, with the exit code that a
    /// shell uses for that.
    pub(super) fn command_failed(&mut self, exit_code: i32, note: String) {
        let state = std::mem::replace(&mut self.state, State::ending(Finish::Status));
        self.log_init();
        self.outcome.count(exit_code);
        self.journal.raise(RaisedException::new("exec", 0, note));
        if let State::Launching(launch) = state {
            let _ended_already = self.report_exits(&launch.exits);
        }
        self.journal.send();
    }

    /// Begins to end the job according to this policy. Tasks that are not started yet will not be. Returns false if the
    /// end has begun already.
    pub(super) fn cancel(&mut self, policy: KillPolicy) -> bool {
        let canceled = Some(Cancel::new(policy));
        match &mut self.state {
            State::Ended | State::Ending(Ending { cancel: Some(_), .. }) => return false,
            State::Ending(ending) => ending.cancel = canceled,
            State::Running => {
                let (finish, requested) = (Finish::Status, None);
                self.state = State::Ending(Ending { finish, requested, cancel: canceled });
            }
            State::Claimed(_) | State::Launching(_) => {
                let executing = self.state.launch().and_then(Launch::executing);
                let unreported = executing.filter(|executing| executing.pid.is_none());
                let requested = unreported.map(|executing| executing.request.rank);
                self.fail("canceled before all of its tasks were started".to_owned());
                let finish = Finish::Never;
                self.state = State::Ending(Ending { finish, requested, cancel: canceled });
            }
        }
        true
    }

    /// Takes the rank of the task whose process a canceled launch had requested, once it is known whether the process
    /// was started.
    pub(super) fn take_unreported_task(&mut self) -> Option<u32> {
        match &mut self.state {
            State::Ending(ending) => ending.requested.take(),
            _ => None,
        }
    }

    /// Reports, once, that the job can't be killed, with the ranks on which its tasks still run. If `left`, processes
    /// that its tasks started still run, which may be on any of its nodes.
    pub(super) fn give_up(&mut self, left: bool) {
        let Some(cancel) = self.state.cancel() else { return };
        let gone = self.tasks.are_reaped() && !left;
        if gone || std::mem::replace(&mut cancel.given_up, true) {
            return;
        }
        let ranks: Idset = if left {
            let is_own = |place: usize| self.part.is_none_or(|part| part == place);
            let own = self.nodes.iter().enumerate().filter(|(place, _)| is_own(*place));
            own.map(|(_, node)| node.rank).collect()
        } else {
            let node = |(_, rank)| self.nodes.get(place(&self.taskmap, rank).node);
            self.tasks.running().filter_map(node).map(|node| node.rank).collect()
        };
        let id = self.id;
        let reason = format!("unkillable user processes for job {id}");
        self.journal.add(ExecEvent::Unkillable { id, ranks, reason });
    }

    /// Records the exit of the task with process id `pid`. Returns how long the others may go on if it is the first.
    #[must_use]
    pub(super) fn task_exited(&mut self, pid: Pid, status: ExitStatus) -> Option<Duration> {
        let exit = Exit { pid, rank: self.tasks.remove(pid)?, status };
        // `shell.task-exit` must not precede `shell.start`, which is logged when the launch is complete.
        if let State::Launching(launch) = &mut self.state {
            launch.exits.push(exit);
            return None;
        }
        self.report_exits(&[exit])
    }

    /// Notes that a task on another node has exited before all others. Returns how long those of this node may go on.
    #[must_use]
    pub(super) fn exited_elsewhere(
        &mut self,
        rank: u32,
        status: ExitStatus,
        host: String,
    ) -> Option<Duration> {
        self.outcome.note_exit_on(rank, status, || host)
    }

    /// Forgets a process that hasn't executed its task's program. Returns whether it is still to be reaped.
    pub(super) fn not_executed(&mut self, pid: Pid) -> bool {
        if let State::Launching(launch) = &mut self.state {
            launch.exits.retain(|exit| exit.pid != pid);
        }
        self.tasks.remove(pid).is_some()
    }

    /// Records exits. Returns how long the other tasks may go on if one of them is the first.
    fn report_exits(&mut self, exits: &[Exit]) -> Option<Duration> {
        exits.iter().fold(None, |timeout, exit| timeout.or(self.report_exit(exit)))
    }

    fn report_exit(&mut self, exit: &Exit) -> Option<Duration> {
        let code = exit.code();
        self.outcome.count(code);
        if !self.never_began() && self.outcome.note_logged(code) {
            let context = exit.context(place(&self.taskmap, exit.rank));
            self.journal.log("shell.task-exit", Some(context));
        }
        if self.outcome.ends_others(exit) {
            let what = format!("failed ({}) and exit-on-error is set", exit.in_words());
            self.fail_others(self.note(exit.rank, &host_name(), &what), Some(exit.raw_status()));
        }
        self.outcome.note_exit(exit)
    }

    fn never_began(&self) -> bool {
        self.state.as_ending().is_some_and(|ending| ending.finish == Finish::Never)
    }

    /// Fails the job if other tasks still run when their time after the first exit is over.
    pub(super) fn exit_timed_out(&mut self) {
        if let Some((first, timeout)) = self.outcome.timed_first() {
            let (how, seconds) = (&first.how, timeout.as_secs_f64());
            let what = format!("exited ({how}) and exit-timeout={seconds}s has expired");
            let (note, status) = (self.note(first.rank, &first.host, &what), first.status);
            self.fail_others(note, Some(status));
        }
    }

    /// A note about what a task did, in the words of Flux's job shell.
    fn note(&self, rank: u32, host: &str, what: &str) -> String {
        format!("{}: task rank {rank} on host {host} {what}", self.program)
    }

    /// Raises a fatal exception, on which the manager ends the tasks that still run. If there is a `wait_status`, the
    /// exit of the task that ended the others decides the status of the job. Does nothing if no task runs, or if the
    /// job ends already.
    fn fail_others(&mut self, note: String, wait_status: Option<i32>) {
        let goes_on = matches!(self.state, State::Launching(_) | State::Running);
        // Tasks of other nodes may run although none of this one does.
        if !goes_on || (self.tasks.are_reaped() && self.part.is_none()) {
            return;
        }
        // Once is enough.
        self.outcome.ignore_exits();
        self.journal
            .raise(RaisedException { wait_status, ..RaisedException::new("exec", 0, note) });
        if wait_status.is_some() {
            self.outcome.decide();
        }
    }

    /// Ends the job because one of its tasks asked for it, in the words of Flux's job shell.
    pub(super) fn aborted(&mut self, why: &str) {
        self.fail_others(format!("PMI_Abort: {why}"), None);
    }

    /// Ends the job if no task and no stream of it is left. Returns whether it ended by this call.
    ///
    /// The job `next` is begun then, which the manager has to know before it frees the resources.
    pub(super) fn end_if_done(&mut self, next: Option<JobId>) -> bool {
        let left = self.state.awaits_process() || !self.tasks.are_reaped();
        if self.has_ended() || left || !self.streams.have_ended() {
            return false;
        }
        let id = self.id;
        // Before the job's finish, so that a client that sees the finish can read the output.
        if let Some(text) = self.streams.take_held_output() {
            self.journal.add(ExecEvent::Output { id, text });
        }
        if !self.never_began() {
            let shell = [("rank", json!(0)), ("wait_status", json!(self.outcome.status(None)))];
            self.journal.log("shell-exit", Some(context(shell)));
            let status = self.outcome.status(self.state.cancel().map(|_| CANCELED));
            self.journal.log("complete", Some(context([("status", json!(status))])));
            self.journal.add(ExecEvent::Finished { id, status });
        }
        self.journal.log("done", None);
        self.streams.stop();
        self.streams.input = None;
        // Removed before the release is reported, so that the directory is gone when the manager frees
        // the resources.
        if let Some(dir) = self.dir.take() {
            dir.remove();
        }
        if let Some(id) = next {
            self.journal.add(ExecEvent::Begun { id });
        }
        self.journal.add(ExecEvent::Released { id });
        self.state = State::Ended;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Arc;

    use tokio::sync::mpsc::unbounded_channel;

    use super::super::job_user::JobUser;
    use super::super::streams::task_pipe::JobHelpers;
    use super::super::streams::taskio::JobIo;
    use super::*;
    use crate::exec::job_files::JobFiles;

    const ID: JobId = JobId::new(7);

    fn names(events: &[ExecEvent]) -> Vec<String> {
        let name = |event: &ExecEvent| match event {
            ExecEvent::Log { entry, .. } => entry.name.to_string(),
            ExecEvent::Begun { .. } => "BEGUN".to_owned(),
            ExecEvent::Recalled { .. } => "RECALLED".to_owned(),
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
        job.log_begin();
        job
    }

    fn running(ntasks: u32) -> Job {
        let nodes = vec![NodeTasks { rank: 0, ntasks }];
        Job::running(&StartJob { ntasks, nodes, ..StartJob::new(ID) })
    }

    /// A task exits with this code.
    fn task_exited(job: &mut Job, code: i32) {
        let pid = Pid::from_raw(1).unwrap();
        job.tasks.add(pid, 0);
        assert_eq!(job.task_exited(pid, ExitStatus::from_raw(code << 8)), None);
    }

    fn seen_by(job: &mut Job, reattach: bool, seen: Seen) -> Vec<String> {
        let (outbox, mut inbox) = unbounded_channel();
        let how = if reattach { Attach::Reattach } else { Attach::Again };
        job.attach(Some(outbox), how, seen);
        let mut events = Vec::new();
        while let Ok(ShepherdMessage::Event(event)) = inbox.try_recv() {
            events.push(event);
        }
        names(&events)
    }

    #[test]
    fn a_job_ends_with_the_highest_status_of_its_tasks() {
        let mut job = running(3);
        for code in [0, 126, 3] {
            task_exited(&mut job, code);
        }
        assert!(job.end_if_done(None));
        assert!(!job.end_if_done(None), "only once");
        let expected = "init starting STARTED shell.init shell.start shell.task-exit \
                        shell.task-exit shell-exit complete FINISHED 32256 done RELEASED";
        assert_eq!(names(job.journal.events()).join(" "), expected);
    }

    #[test]
    fn a_job_that_cannot_start_has_no_finish() {
        let mut job = job(1);
        job.fail("no".to_owned());
        job.end_if_done(None);
        assert_eq!(
            names(job.journal.events()).join(" "),
            "init starting EXCEPTION 0 done RELEASED"
        );
    }

    #[test]
    fn a_job_whose_command_cannot_be_run_began_and_failed() {
        let mut job = job(1);
        job.command_failed(127, "no".to_owned());
        job.end_if_done(None);
        let expected = "init starting STARTED shell.init EXCEPTION 0 shell-exit complete \
                        FINISHED 32512 done RELEASED";
        assert_eq!(names(job.journal.events()).join(" "), expected);
    }

    #[test]
    fn a_canceled_job_does_not_count_as_a_success() {
        let mut job = running(1);
        assert!(job.cancel(KillPolicy::default()));
        task_exited(&mut job, 0);
        job.end_if_done(None);
        assert!(names(job.journal.events()).contains(&"FINISHED 256".to_owned()));
    }

    #[test]
    fn what_a_job_has_printed_is_reported_before_its_finish() {
        let state = tempfile::tempdir().unwrap();
        let files = Arc::new(JobFiles::open(state.path(), "output").unwrap());
        let start = StartJob { ntasks: 1, takes_output: true, ..StartJob::new(ID) };
        let io =
            JobIo::create(&start, &JobUser::default(), &JobHelpers::new(&Arc::default()), &files)
                .unwrap();
        let mut job = running(1);
        job.streams.output = Some(io.log());
        job.end_if_done(None);
        let expected = "init starting STARTED shell.init shell.start OUTPUT shell-exit complete \
                        FINISHED 0 done RELEASED";
        assert_eq!(names(job.journal.events()).join(" "), expected);
        let seen = |log_entries, finished| Seen { log_entries, exceptions: 0, finished };
        let unseen = seen_by(&mut job, true, seen(6, false)).join(" ");
        assert_eq!(unseen, "REATTACHED OUTPUT FINISHED 0 done RELEASED CAUGHT-UP");
        let unseen = seen_by(&mut job, true, seen(6, true)).join(" ");
        assert_eq!(unseen, "REATTACHED done RELEASED CAUGHT-UP");
    }

    #[test]
    fn a_manager_gets_what_it_has_not_seen() {
        let mut job = running(1);
        let seen = Seen { log_entries: 3, ..Seen::default() };
        assert_eq!(
            seen_by(&mut job, true, seen),
            ["REATTACHED", "shell.start", "CAUGHT-UP", "reattach"]
        );
        assert_eq!(
            seen_by(&mut job, false, Seen::default()).join(" "),
            "init starting STARTED shell.init shell.start reattach"
        );
        job.journal.inform("x".to_owned());
        task_exited(&mut job, 1);
        job.end_if_done(None);
        let seen = Seen { log_entries: 9, exceptions: 1, finished: true };
        assert_eq!(seen_by(&mut job, true, seen), ["REATTACHED", "RELEASED", "CAUGHT-UP"]);
        let seen = Seen { log_entries: 8, exceptions: 0, finished: false };
        assert_eq!(
            seen_by(&mut job, true, seen),
            ["REATTACHED", "EXCEPTION 2", "FINISHED 256", "done", "RELEASED", "CAUGHT-UP"]
        );
    }
}
