//! A job of a shepherd whose processes are played, for the simulator: what its manager is told, and what it is told once
//! more, is as for any job.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;

use super::job::{Attach, Job};
use crate::exec::protocol::{Resumed, ShepherdMessage};
use crate::exec::{KillPolicy, Seen, StartJob};

/// The job.
pub struct PlayedJob(Job);

/// Where the manager hears of a job.
type ToManager = UnboundedSender<ShepherdMessage>;

impl PlayedJob {
    /// A job whose tasks were all started as these processes, each with its rank.
    pub fn running(start: &StartJob, tasks: impl IntoIterator<Item = (i32, u32)>) -> Self {
        let mut job = Job::running(start);
        for (process, rank) in tasks {
            if let Some(process) = Pid::from_raw(process) {
                job.tasks.add(process, rank);
            }
        }
        Self(job)
    }

    /// A job that couldn't be started.
    pub fn failed(start: &StartJob, note: &str) -> Self {
        let mut job = Job::new(start, None);
        job.log_begin();
        job.fail(note.to_owned());
        job.end_if_done(None);
        Self(job)
    }

    /// A job that ended under an earlier shepherd, with its events.
    pub fn ended_earlier(id: JobId, events: Vec<ExecEvent>) -> Self {
        Self(Job::ended_earlier(id, events))
    }

    /// Tells a manager that asks for its start what it hasn't seen.
    pub fn attach(&mut self, to: &ToManager, reattach: bool, seen: Seen) {
        let how = if reattach { Attach::Reattach } else { Attach::Again };
        self.0.attach(Some(to.clone()), how, seen);
    }

    /// Tells the same manager, which had another shepherd before, what it hasn't seen.
    pub fn resume(&mut self, to: &ToManager, resumed: Resumed) {
        let Resumed { seen, started, .. } = resumed;
        self.0.attach(Some(to.clone()), Attach::Resume { started }, seen);
    }

    /// The manager is gone.
    pub fn detach(&mut self) {
        self.0.journal.detach();
    }

    /// A process has exited with this wait status; `next` is the job that comes [after](super::Ahead) this one. Returns
    /// whether the job has ended by that.
    pub fn exited(&mut self, process: i32, status: i32, next: Option<JobId>) -> bool {
        if let Some(process) = Pid::from_raw(process) {
            let _others_may_go_on = self.0.task_exited(process, ExitStatus::from_raw(status));
        }
        self.0.end_if_done(next)
    }

    /// Begins to end the job. Returns false if that has begun.
    pub fn cancel(&mut self, kill: KillPolicy) -> bool {
        self.0.cancel(kill)
    }

    /// Reports, once, that a job that is canceled doesn't end.
    pub fn give_up(&mut self) {
        self.0.give_up(false);
    }

    /// Whether a manager hears of it.
    pub fn is_attached(&self) -> bool {
        self.0.journal.is_attached()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// All that its managers are told.
    pub fn events(&self) -> &[ExecEvent] {
        self.0.journal.events()
    }
}
