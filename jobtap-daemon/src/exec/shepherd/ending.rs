//! The end of the shepherd: when it exits, and what it cleans up before.
//!
//! The shepherd exits
//! - when it holds no job (running, or ended and not acknowledged) and no manager has been connected
//!   for the idle time, which gives a restarting manager the time to find it again;
//! - when its manager has requested a shutdown, as soon as it holds no job;
//! - when its state directory was removed and all its jobs have ended, since no manager can fetch their
//!   statuses then;
//! - when the manager of a temporary instance is gone: its state is removed with it, so that no other
//!   manager can continue its jobs. They are canceled, and then the shepherd removes the state directory
//!   and exits;
//! - on SIGTERM, when all jobs have been canceled and have ended.
//!
//! Canceled jobs are killed as their [`KillPolicy`](crate::exec::KillPolicy) says. A job that the policy
//! declares unkillable gets SIGKILL, which may not be the policy's own signal, and is then waited for
//! [`LAST_SWEEP`] at most, so the time to exit is bounded. The wait for acknowledgements is bounded too:
//! in a durable state directory the shepherd writes the ends that were not acknowledged to a file
//! ([`unacknowledged`](super::unacknowledged)), which the next shepherd reads. A job that hangs in the
//! kernel is left running and is in no such file: the next manager reports it as lost and drains its
//! nodes. The manager of a temporary instance acknowledges nothing once it has requested the shutdown, since nothing
//! of the instance remains.
//!
//! SIGTERM applies to the jobs that the shepherd holds at that moment. A manager that starts another job
//! still needs a shepherd, so the shepherd continues for it. To end an instance, end its manager first.
//!
//! In every case, no process that a job left behind outlives the shepherd. Such a process may itself be
//! the shepherd of a nested instance, whose jobs become children of this one when it is killed. So the
//! shepherd kills its children until none is left.

use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::Signal as SignalStream;
use tokio::time::{Instant, sleep_until};

use super::job::Job;
use super::manager_process::ManagerProcess;
use super::state::{Ending, Shepherd};
use super::unacknowledged;
use crate::files::remove_leftover_at;
use crate::stderr;

/// How often to check that the manager of a temporary instance still lives, while it isn't connected.
pub(super) const MANAGER_PATROL: Duration = Duration::from_millis(100);

/// How long to wait for a connected manager to acknowledge the last ends.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(5);

/// How long to wait for killed processes before the shepherd exits without them. Those that remain hang in
/// the kernel, or belong to another user.
const LAST_SWEEP: Duration = Duration::from_secs(5);

impl Shepherd {
    /// Cancels all jobs, so that the shepherd exits when they have ended.
    pub(super) fn end(&mut self) {
        self.ending.begun = true;
        self.forget_ahead();
        self.cancel_all();
    }

    /// Calls off a shutdown, or an end that has begun, because there is a new job.
    pub(super) fn keep_running(&mut self) {
        self.shutdown = false;
        self.ending = Ending::default();
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_done(&mut self) -> bool {
        let ends = self.ending.begun;
        if self.jobs.is_empty() {
            return ends || self.shutdown;
        }
        if !ends || !self.jobs.values().all(|job| job.has_ended() || job.is_given_up()) {
            return false;
        }
        if self.manager.is_none() || self.shutdown && self.manager_process.is_some() {
            return true;
        }
        let now = Instant::now();
        *self.ending.deadline.get_or_insert(now + ACKNOWLEDGEMENT) <= now
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.manager.is_none()
    }

    /// Whether the state directory is gone and no job runs: no manager can fetch the statuses then.
    pub(super) fn has_lost_its_state(&self) -> bool {
        self.manager.is_none() && self.jobs.values().all(Job::has_ended) && !self.state_dir.exists()
    }

    /// Whether the manager of a temporary instance may have ended without a shutdown request.
    pub(super) fn must_check_manager_process(&self) -> bool {
        self.manager_process.is_some() && self.manager.is_none() && !self.ending.begun
    }

    /// Whether the process that this temporary instance ends with is gone.
    pub(super) fn is_manager_gone(&self) -> bool {
        self.manager_process.as_ref().is_some_and(ManagerProcess::is_gone)
    }

    /// Ends the processes that are left, and cleans up the state directory.
    pub(super) async fn clean_up(&mut self, children: &mut SignalStream) {
        self.end_processes(children).await;
        self.forget_ahead();
        self.claims.close();
        if self.is_manager_gone() {
            // No manager is left to remove the directory, and none will read it.
            if let Err(error) = remove_leftover_at(&self.state_dir) {
                stderr::line(&format!("shepherd: {}: {error}", self.state_dir.display()));
            }
        } else if self.manager_process.is_none() && self.state_dir.exists() {
            let ended = self.jobs.values().filter(|job| job.has_ended() && !job.acknowledged);
            if let Err(error) = unacknowledged::write(&self.state_dir, ended) {
                stderr::line(&format!("shepherd: the ends of jobs are lost: {error}"));
            }
        }
    }

    async fn end_processes(&mut self, children: &mut SignalStream) {
        self.forker.dismiss();
        let deadline = Instant::now() + LAST_SWEEP;
        let given_up = self.jobs.values().filter(|job| !job.has_ended()).map(|job| job.id);
        for id in given_up.collect::<Vec<_>>() {
            self.signal(id, Signal::KILL);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.streams.stop();
            }
        }
        loop {
            self.reap();
            let orphans = self.orphans();
            if orphans.is_empty() && self.tasks.is_empty() {
                return;
            }
            self.kill_orphans(orphans);
            // The kernel reparents the children of a process before the process can be reaped, so the
            // next iteration finds them.
            tokio::select! {
                _ = children.recv() => {}
                () = sleep_until(deadline) => break,
            }
        }
        let left = self.orphans().into_iter().chain(self.tasks.keys().copied());
        let left: Vec<i32> = left.map(Pid::as_raw_pid).collect();
        stderr::line(&format!(
            "shepherd: processes of jobs are left that can't be killed: {left:?}"
        ));
    }
}
