//! Finds the processes that jobs left behind and ends them, with all that they started in their turn.
//!
//! A process whose parent died becomes a child of the shepherd, the subreaper. Such a *stranger*
//! belongs to a job if it is in the job's process group, or if its environment says so. Only
//! children of the shepherd are looked at: until they are reaped, their numbers can't mean anybody
//! else.
//!
//! What a stranger has started comes to the shepherd when the stranger has been killed, even if it was
//! the shepherd of a nested instance. It is looked for at once, generation by generation: a process that
//! was killed starts no other, so that this comes to an end.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use tokio::time::Instant;

use super::Shepherd;
use super::job::Job;
use super::reap::send;
use super::token;

/// How long a process that left its job's process group may outlive the job.
const SWEEP_DELAY: Duration = Duration::from_secs(1);

impl Shepherd {
    /// Has [`sweep`](Self::sweep) done before long.
    pub(super) fn sweep_soon(&mut self) {
        self.sweep_at.get_or_insert_with(|| Instant::now() + SWEEP_DELAY);
    }

    /// A stranger was reaped. Its children, if any, have come here with its end.
    pub(super) fn stranger_ended(&mut self, pid: Pid) {
        if self.swept.remove(&pid) {
            self.sweep_at = Some(Instant::now());
        } else {
            self.sweep_soon();
        }
    }

    /// Kills processes that no job needs any more.
    pub(super) fn kill(&mut self, strangers: Vec<Pid>) {
        for pid in &strangers {
            send(*pid, Signal::KILL);
        }
        self.swept.extend(strangers);
    }

    /// Kills the strangers of jobs that have ended. While no job runs, that is all strangers.
    pub(super) fn sweep(&mut self) {
        self.sweep_at = None;
        let strangers = self.strangers();
        if strangers.is_empty() {
            return;
        }
        let live = || self.jobs.values().filter(|job| job.is_live());
        let groups: HashSet<Pid> = live().filter_map(|job| job.group).collect();
        let idle = live().next().is_none();
        let unneeded = strangers.into_iter().filter(|pid| {
            let owner = self.owner(*pid);
            let lives = owner.and_then(|id| self.jobs.get(&id)).is_some_and(Job::is_live)
                || getpgid(Some(*pid)).is_ok_and(|group| groups.contains(&group));
            !lives && (owner.is_some() || idle)
        });
        let unneeded = unneeded.collect();
        self.kill(unneeded);
    }

    /// Kills what is left of a job whose tasks are gone.
    pub(super) fn kill_leftovers(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id) {
            let killed = self.signal_strangers(job, None, Signal::KILL);
            self.swept.extend(killed);
        }
    }

    /// Sends a signal to the strangers of a job, except those in the group `done`. Gives those that it
    /// was sent to.
    pub(super) fn signal_strangers(
        &self,
        job: &Job,
        done: Option<Pid>,
        signal: Signal,
    ) -> Vec<Pid> {
        let mut sent_to = None;
        let mut reached = self.strangers();
        reached.retain(|pid| match getpgid(Some(*pid)).ok() {
            Some(group) if Some(group) == done => false,
            Some(group) if Some(group) == sent_to => true,
            Some(group) if Some(group) == job.group => {
                sent_to = Some(group);
                let _ = kill_process_group(group, signal);
                true
            }
            _ if self.owner(*pid) == Some(job.id) => {
                send(*pid, signal);
                true
            }
            _ => false,
        });
        reached
    }

    /// The job that a process belongs to by its environment.
    pub(super) fn owner(&self, pid: Pid) -> Option<JobId> {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
        token::job_in(&environment, &self.nonce)
    }

    /// The shepherd's children that aren't tasks.
    pub(super) fn strangers(&self) -> Vec<Pid> {
        let Ok(threads) = fs::read_dir("/proc/self/task") else {
            return Vec::new();
        };
        threads
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
            .flat_map(|text| {
                let pids = text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
                pids.filter_map(Pid::from_raw).collect::<Vec<_>>()
            })
            .filter(|pid| !self.tasks.contains_key(pid))
            .collect()
    }
}
