//! Handles the reports of the forker, and its death.

use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::{Pid, Signal, WaitOptions, getsid, waitpid};

use super::super::forker::{Begun, ForkerEvent, Unreported};
use super::super::launch::NotForked;
use super::super::state::Shepherd;
use super::reap::is_alive;
use super::signals::send;
use crate::stderr;

/// How often to look for the process of a task that a dead forker may have started.
const LOOKS: usize = 200;

/// The pause between two looks. A process executes its program within a millisecond, unless the system is very busy.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

impl Shepherd {
    /// Starts a forker, if none runs. If that fails, the start of the next task tries it again.
    pub(in crate::exec::shepherd) fn start_forker(&mut self) {
        if let Err(error) = self.forker.start() {
            stderr::line(&format!("shepherd: cannot start its forker: {error}"));
        }
    }

    /// Handles what the forker has reported.
    pub(in crate::exec::shepherd) fn take_forker_reports(&mut self) {
        for report in self.forker.exchange() {
            self.reported(report);
        }
    }

    fn reported(&mut self, report: ForkerEvent) {
        match report {
            ForkerEvent::Started { job, pid, report } => self.started(job, pid, report),
            ForkerEvent::NotForked { job, error } => {
                self.not_forked(job, NotForked::Refused(error));
            }
            ForkerEvent::Exited { pid, status } => self.reaped(pid, status),
        }
    }

    /// Continues a stopped forker, and handles its death. `others_reaped` says whether a child was reaped just now that
    /// isn't known.
    pub(super) fn check_forker(&mut self, others_reaped: bool) {
        let Some(forker) = self.forker.pid() else { return };
        match waitpid(Some(forker), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            // A job may have stopped it, and the other jobs need it.
            Ok(Some((_, status))) if status.stopped() => send(forker, Signal::CONT),
            Ok(Some(_)) => self.forker_died(others_reaped),
            _ => {}
        }
    }

    /// Takes over what a dead forker has left, and starts another one. Its children are the shepherd's now. None was
    /// reaped yet, unless `others_reaped`.
    pub(super) fn forker_died(&mut self, others_reaped: bool) {
        let has_served = self.forker.has_served();
        let (reports, requested) = self.forker.reaped();
        for report in reports {
            self.reported(report);
        }
        for Unreported { job, begun, report } in requested {
            let begun = match begun {
                Begun::Perhaps => match self.look_for_task(job) {
                    // It may be the one that was reaped.
                    Begun::No if others_reaped => Begun::Perhaps,
                    found => found,
                },
                begun => begun,
            };
            match begun {
                Begun::Yes(pid) => self.started(job, pid, report),
                Begun::No => self.not_forked(job, NotForked::Again),
                Begun::Perhaps => self.not_forked(job, NotForked::Lost),
            }
        }
        stderr::line("shepherd: its forker has died");
        // A forker that can't even begin is started again only for the next task.
        if has_served {
            self.start_forker();
        }
    }

    /// Looks for the process of a job's task among the children that a dead forker has left. A task leads a session and
    /// has the token of its job. Until it executes its program it has the environment of the forker, so it is looked for
    /// several times as long as a child that lives is nobody's. A child that has exited has no environment.
    fn look_for_task(&self, id: JobId) -> Begun {
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let Ok(mut children) = self.all_orphans() else { return Begun::Perhaps };
            children.retain(|pid| !self.killed_orphans.contains(pid));
            let seen = children.into_iter().map(|pid| Child {
                pid,
                job: self.job_of(pid),
                leads_session: getsid(Some(pid)) == Ok(pid),
                is_alive: is_alive(pid),
            });
            if let Some(begun) = begun_by(&seen.collect::<Vec<_>>(), id) {
                return begun;
            }
        }
        Begun::Perhaps
    }
}

/// A child that a dead forker may have left.
struct Child {
    pid: Pid,
    /// The job whose token it has.
    job: Option<JobId>,
    leads_session: bool,
    is_alive: bool,
}

/// Decides from all children whether the task of this job has begun. `None` while a living child may still become it.
fn begun_by(children: &[Child], id: JobId) -> Option<Begun> {
    if let Some(task) = children.iter().find(|child| child.job == Some(id) && child.leads_session) {
        return Some(Begun::Yes(task.pid));
    }
    let may_be_it = || children.iter().filter(|child| child.job.is_none_or(|job| job == id));
    if may_be_it().next().is_none() {
        return Some(Begun::No);
    }
    (!may_be_it().any(|child| child.is_alive)).then_some(Begun::Perhaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: JobId = JobId::new(7);

    fn child(job: Option<u64>, leads_session: bool, is_alive: bool) -> Child {
        let pid = Pid::from_raw(9).unwrap();
        Child { pid, job: job.map(JobId::new), leads_session, is_alive }
    }

    #[test]
    fn a_task_has_not_begun_only_if_no_child_can_be_it() {
        let begun = |children: &[Child]| begun_by(children, ID);
        let other = || child(Some(8), true, true);
        assert_eq!(begun(&[]), Some(Begun::No));
        assert_eq!(begun(&[other()]), Some(Begun::No));
        let pid = Pid::from_raw(9).unwrap();
        assert_eq!(begun(&[other(), child(Some(7), true, true)]), Some(Begun::Yes(pid)));
        // It executes its program, or leads no session yet.
        assert_eq!(begun(&[other(), child(None, false, true)]), None);
        assert_eq!(begun(&[child(Some(7), false, true)]), None);
        // One that has exited has no environment any more.
        assert_eq!(begun(&[other(), child(None, true, false)]), Some(Begun::Perhaps));
    }
}
