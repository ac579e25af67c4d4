//! Finds the processes that jobs left behind and kills them, with all their descendants.
//!
//! A process whose parent died becomes a child of the shepherd, the subreaper. Such an *orphan* belongs
//! to a job if it is in a process group of the job, or if its environment has the job's token. Only children
//! of the shepherd are signaled: until the shepherd reaps them, their process ids can't be reused.
//!
//! The children of an orphan become the shepherd's when the orphan has been killed, even if it was the
//! shepherd of a nested instance. They are looked for at once, generation by generation. A killed process
//! starts no other, so the search terminates.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::{Pid, Signal, getpgid};
use tokio::time::Instant;

use super::super::job::Job;
use super::super::pids::signals::send;
use super::super::pids::token;
use super::super::state::Shepherd;
use super::groups::signal_groups;

/// How much of a process's environment is searched for the job's token: more than the system gives a process.
const LONGEST_ENVIRONMENT: u64 = 8 << 20;

/// How long a process that left its job's process group may outlive the job.
const SWEEP_DELAY: Duration = Duration::from_secs(1);

impl Shepherd {
    /// Schedules a [`sweep`](Self::sweep), unless one is scheduled already.
    pub(super) fn sweep_soon(&mut self) {
        self.sweep_at.get_or_insert_with(|| Instant::now() + SWEEP_DELAY);
    }

    /// Handles the reaping of an orphan. Its children, if any, are the shepherd's now.
    pub(super) fn orphan_reaped(&mut self, pid: Pid) {
        if self.killed_orphans.remove(&pid) {
            self.sweep_at = Some(Instant::now());
        } else {
            self.sweep_soon();
        }
    }

    /// Kills orphans that no job needs any more.
    pub(in crate::exec::shepherd) fn kill_orphans(&mut self, orphans: Vec<Pid>) {
        for pid in &orphans {
            send(*pid, Signal::KILL);
        }
        self.killed_orphans.extend(orphans);
    }

    /// Kills the orphans of jobs that have ended; all orphans, if no job runs.
    pub(in crate::exec::shepherd) fn sweep(&mut self) {
        self.sweep_at = None;
        self.forker.send_ended();
        if self.is_successor {
            let unneeded = |id| !self.jobs.get(&id).is_some_and(Job::needs_processes);
            self.signal_strays(Signal::KILL, unneeded);
        }
        let orphans = self.orphans();
        if orphans.is_empty() {
            return;
        }
        let live = || self.jobs.values().filter(|job| job.needs_processes());
        let groups: HashSet<Pid> = live().flat_map(|job| job.tasks.groups()).collect();
        let idle = live().next().is_none();
        // While a job runs, an orphan whose job is unknown may be one of its processes: while a process executes
        // another program, its environment is empty for a moment.
        let unneeded = orphans.into_iter().filter(|pid| {
            let job = self.job_of(*pid);
            let lives = job.and_then(|id| self.jobs.get(&id)).is_some_and(Job::needs_processes)
                || getpgid(Some(*pid)).is_ok_and(|group| groups.contains(&group));
            !lives && (job.is_some() || idle)
        });
        let unneeded = unneeded.collect();
        self.kill_orphans(unneeded);
    }

    /// Kills the orphans of a job whose tasks are gone.
    pub(super) fn kill_leftovers(&mut self, id: JobId) {
        let killed = self.signal_processes(id, Signal::KILL);
        self.killed_orphans.extend(killed);
    }

    /// Sends a signal to the tasks of a job, to their process groups, and to the orphans that left these groups.
    /// Returns the orphans that it was sent to.
    pub(super) fn signal_processes(&mut self, id: JobId, signal: Signal) -> Vec<Pid> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let groups = signal_groups(&mut self.forker, &job.tasks, signal);
        if self.is_successor {
            self.signal_strays(signal, |of| of == id);
        }
        let mut reached = self.orphans();
        reached.retain(|pid| {
            if getpgid(Some(*pid)).is_ok_and(|group| groups.contains(&group)) {
                return true;
            }
            let ours = self.job_of(*pid) == Some(id);
            if ours {
                send(*pid, signal);
            }
            ours
        });
        reached
    }

    /// The job that a process belongs to according to its environment.
    pub(super) fn job_of(&self, pid: Pid) -> Option<JobId> {
        token::job_in(&environment_of(pid)?, &self.nonce)
    }

    /// The job in which another manager runs a job that a process belongs to, according to its environment.
    pub(super) fn enclosing_job_of(&self, pid: Pid) -> Option<JobId> {
        token::enclosing_job_in(&environment_of(pid)?, &self.nonce)
    }

    /// The shepherd's children that are neither tasks nor its forker, as far as the system lists them.
    pub(in crate::exec::shepherd) fn orphans(&self) -> Vec<Pid> {
        self.without_known(own_children().into_iter().flatten().flatten().collect())
    }

    /// The same, where none may be missing.
    pub(super) fn all_orphans(&self) -> io::Result<Vec<Pid>> {
        let children = own_children().into_iter().collect::<io::Result<Vec<_>>>()?;
        Ok(self.without_known(children.concat()))
    }

    fn without_known(&self, mut children: Vec<Pid>) -> Vec<Pid> {
        children.retain(|pid| !self.tasks.contains_key(pid) && self.forker.pid() != Some(*pid));
        children
    }
}

fn environment_of(pid: Pid) -> Option<Vec<u8>> {
    let file = File::open(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut environment = Vec::new();
    // A process can claim that its environment is as long as its memory.
    file.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment).ok()?;
    Some(environment)
}

/// The children of each thread of this process.
fn own_children() -> Vec<io::Result<Vec<Pid>>> {
    let children_of = |thread: io::Result<DirEntry>| {
        let children = fs::read_to_string(thread?.path().join("children"))?;
        let pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        Ok(pids.filter_map(Pid::from_raw).collect())
    };
    match fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.map(children_of).collect(),
        Err(error) => vec![Err(error)],
    }
}
