//! The shepherd's own end: when it comes, and what is left in order.
//!
//! It comes by itself
//! - when the shepherd holds no job (running, or ended and not acknowledged) and no manager has been
//!   connected for the idle time, so that a manager that restarts finds it again;
//! - when its manager asked it to shut down, as soon as it holds no job;
//! - when its state directory was removed and all its jobs have ended, since nobody can fetch their
//!   statuses then;
//! - when the manager of a temporary instance is gone: its state goes with it, so nobody can come back
//!   for the jobs. They are canceled, and then the shepherd removes the state directory and exits;
//! - on SIGTERM, when all jobs have been canceled and have ended.
//!
//! Canceled jobs are killed as their [`KillPolicy`](crate::exec::KillPolicy) says. A job that the policy
//! declares unkillable gets SIGKILL, which may not be the policy's own signal, and is not waited for much
//! longer, so the shepherd's end is bounded. Nor does it wait for acknowledgements: on a durable state directory it leaves the ends that were not
//! acknowledged in a file ([`kept_ends`](super::kept_ends)), where the next shepherd finds them. A job
//! that hangs in the kernel is left running and is in no such file: the next manager reports it as lost
//! and drains its nodes.
//!
//! SIGTERM is about the jobs that the shepherd holds at that moment. A manager that starts another one
//! still needs a shepherd, so the shepherd stays for it: to end an instance, end its manager first.
//!
//! Whatever the reason, no process that a job left behind outlives the shepherd. Such a process may
//! itself be the shepherd of a nested instance, whose jobs become children of this one when it is
//! killed, so it kills until no child is left.

use std::time::Duration;

use rustix::process::{Pid, Signal, getppid};
use tokio::signal::unix::Signal as SignalStream;
use tokio::time::{Instant, sleep_until};

use super::job::Job;
use super::kept_ends;
use super::state::Shepherd;
use crate::files::remove_leftover_at;
use crate::stderr;

/// How often to look whether the manager of a temporary instance still lives, while it isn't connected.
pub(super) const OWNER_PATROL: Duration = Duration::from_millis(100);

/// How long a manager that is connected has to acknowledge the last ends.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(5);

/// How long killed processes have to be gone before the shepherd leaves without them: those that hang in
/// the kernel, or belong to another user.
const LAST_SWEEP: Duration = Duration::from_secs(5);

/// How far the end has come.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// All jobs were canceled, because of SIGTERM or because nobody can come back for them.
    begun: bool,
    /// When acknowledgements are no longer waited for, once all jobs have ended.
    deadline: Option<Instant>,
}

impl Ending {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Shepherd {
    /// Cancels all jobs and ends when they have ended.
    pub(super) fn end(&mut self) {
        self.ending.begun = true;
        self.cancel_all();
    }

    /// Stays for a new job.
    pub(super) fn stay(&mut self) {
        self.shutdown = false;
        self.ending = Ending::default();
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_done(&mut self) -> bool {
        let ends = self.ending.begun;
        if self.jobs.is_empty() {
            return ends || self.shutdown;
        }
        if !ends || !self.jobs.values().all(|job| job.ended() || job.is_given_up()) {
            return false;
        }
        let now = Instant::now();
        self.manager.is_none() || *self.ending.deadline.get_or_insert(now + ACKNOWLEDGEMENT) <= now
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.manager.is_none()
    }

    /// Whether nobody can ever come for the statuses that are kept.
    pub(super) fn is_forsaken(&self) -> bool {
        self.manager.is_none() && self.jobs.values().all(Job::ended) && !self.state_dir.exists()
    }

    /// Whether the manager of a temporary instance may have ended without a word.
    pub(super) fn may_be_abandoned(&self) -> bool {
        self.owner.is_some() && self.manager.is_none() && !self.ending.begun
    }

    /// Whether the process that this temporary instance ends with is gone. It started the shepherd, which
    /// the system gives another parent then; a manager that restarts in place is the same process.
    pub(super) fn is_abandoned(&self) -> bool {
        self.owner.is_some_and(|owner| getppid() != Some(owner))
    }

    /// Ends what is left of jobs, and leaves the state directory in order.
    pub(super) async fn leave(&mut self, children: &mut SignalStream) {
        self.end_processes(children).await;
        if self.is_abandoned() {
            // Nobody else can, and nobody will come for what is in it.
            if let Err(error) = remove_leftover_at(&self.state_dir) {
                stderr::line(&format!("shepherd: {}: {error}", self.state_dir.display()));
            }
        } else if self.owner.is_none() && self.state_dir.exists() {
            let ended = self.jobs.values().filter(|job| job.ended() && !job.acknowledged);
            if let Err(error) = kept_ends::write(&self.state_dir, ended) {
                stderr::line(&format!("shepherd: the ends of jobs are lost: {error}"));
            }
        }
    }

    async fn end_processes(&mut self, children: &mut SignalStream) {
        let deadline = Instant::now() + LAST_SWEEP;
        let given_up = self.jobs.values().filter(|job| !job.ended()).map(|job| job.id);
        for id in given_up.collect::<Vec<_>>() {
            self.signal(id, Signal::KILL);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.stop_pumps();
            }
        }
        loop {
            self.reap();
            let strangers = self.strangers();
            if strangers.is_empty() && self.tasks.is_empty() {
                return;
            }
            self.kill(strangers);
            // The children of a process are the shepherd's before the process can be reaped.
            tokio::select! {
                _ = children.recv() => {}
                () = sleep_until(deadline) => break,
            }
        }
        let left = self.strangers().into_iter().chain(self.tasks.keys().copied());
        let left: Vec<i32> = left.map(Pid::as_raw_pid).collect();
        stderr::line(&format!(
            "shepherd: processes of jobs are left that can't be killed: {left:?}"
        ));
    }
}
