//! Processes of jobs that are not children of the shepherd, because an earlier shepherd that was their subreaper has
//! died, or because they are those of another manager that runs as a job.
//!
//! They are found by the [token](super::token) in their environment. Since others reap them, their ids can be given to
//! other processes at any time: a process is opened before its environment is read, and signaled through the open
//! handle.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use jobtap_core::job::JobId;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::state::Shepherd;
use crate::stderr;

/// How long to wait for killed processes. Those that remain hang in the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often to look whether they are gone.
const PAUSE: Duration = Duration::from_millis(5);

impl Shepherd {
    /// Kills the processes left by jobs of earlier shepherds that are no longer known.
    pub(in crate::exec::shepherd) fn kill_lost(&mut self) {
        let lost = |id: JobId| self.claims.is_earlier(id) && !self.jobs.contains_key(&id);
        if !self.claims.earlier().any(lost) {
            return;
        }
        let begin = Instant::now();
        // Until there is none, since each may have started another one before it was killed.
        while self.signal_strays(Signal::KILL, lost) > 0 {
            if begin.elapsed() > PATIENCE {
                stderr::line("shepherd: processes of lost jobs are left that can't be killed");
                self.lost_jobs_run_on = true;
                return;
            }
            sleep(PAUSE);
        }
    }

    /// Sends a signal to all processes of the jobs that `of` accepts, whoever their parents are. Returns the number of
    /// processes.
    pub(super) fn signal_strays(&self, signal: Signal, of: impl Fn(JobId) -> bool) -> usize {
        signal_all(signal, |pid| self.job_of(pid).is_some_and(&of))
    }

    /// Sends a signal to the processes of jobs that managers inside of this job run. These managers have shepherds of
    /// their own.
    pub(in crate::exec::shepherd) fn signal_steps(&self, id: JobId, signal: Signal) {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.has_ended()) else { return };
        // The environment is the user's to write, so it can't say whose process it is. Looking at the owner first also
        // spares reading the environments of all processes of the host.
        let is_step = |pid| is_owned_by(pid, job.userid) && self.enclosing_job_of(pid) == Some(id);
        signal_all(signal, is_step);
    }
}

/// Whether a process runs as this user, and not a program that has the rights of another one, such as `sudo`.
fn is_owned_by(pid: Pid, userid: u32) -> bool {
    let process = fs::metadata(format!("/proc/{}", pid.as_raw_nonzero()));
    process.is_ok_and(|process| process.uid() == userid)
}

/// Sends a signal to each process for which `is_meant` is true, also to those that are not children of the shepherd. Returns how
/// many there were.
fn signal_all(signal: Signal, is_meant: impl Fn(Pid) -> bool) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        is_meant(pid).then_some(process)
    });
    // It may have ended meanwhile.
    let send = |process: OwnedFd| pidfd_send_signal(process, signal).unwrap_or_default();
    processes.map(send).count()
}

#[cfg(test)]
mod tests {
    use rustix::process::{geteuid, getpid};

    use super::*;

    #[test]
    fn a_process_is_owned_by_the_user_that_it_runs_as() {
        let own = geteuid().as_raw();
        assert!(is_owned_by(getpid(), own));
        assert!(!is_owned_by(getpid(), own + 1));
        assert!(!is_owned_by(Pid::from_raw(i32::MAX).unwrap(), own));
    }
}
