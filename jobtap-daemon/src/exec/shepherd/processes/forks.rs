//! Handles the reports of the forker, and its death.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::super::forker::{Begun, ForkerEvent, Unreported};
use super::super::not_forked::NotForked;
use super::super::pids::signals::send;
use super::super::state::Shepherd;
use super::reap::is_alive;
use crate::stderr;

/// How often to look whether the process of a task that a dead forker may have started has written its id.
const LOOKS: usize = 200;

/// The pause between two looks. A process writes its id at once, unless the system is very busy.
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

    /// Continues a stopped forker, and handles its death.
    pub(super) fn check_forker(&mut self) {
        let Some(forker) = self.forker.pid() else { return };
        match waitpid(Some(forker), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            // A job may have stopped it, and the other jobs need it.
            Ok(Some((_, status))) if status.stopped() => send(forker, Signal::CONT),
            Ok(Some(_)) => self.forker_died(),
            _ => {}
        }
    }

    /// Takes over what a dead forker has left, and starts another one. Its children are the shepherd's now.
    pub(super) fn forker_died(&mut self) {
        let has_served = self.forker.has_served();
        let (reports, requested) = self.forker.reaped();
        for report in reports {
            self.reported(report);
        }
        for mut unreported in requested {
            let begun = self.settled(&mut unreported);
            let Unreported { job, report, .. } = unreported;
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

    /// Waits until it is known whether a dead forker has begun a task. What its process does first is to write its id,
    /// so that it hasn't begun if the id isn't there while no child lives that could write it.
    fn settled(&self, unreported: &mut Unreported) -> Begun {
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let may_write = self.has_unknown_child();
            match unreported.begun() {
                Begun::Perhaps if !may_write => return Begun::No,
                Begun::Perhaps => {}
                begun => return begun,
            }
        }
        Begun::Perhaps
    }

    /// Whether a child lives, or may live, that belongs to no job. A new process has the environment of its forker until
    /// it executes its program.
    fn has_unknown_child(&self) -> bool {
        // A killed process executes nothing any more.
        let is_unknown = |pid: Pid| {
            !self.killed_orphans.contains(&pid) && is_alive(pid) && self.job_of(pid).is_none()
        };
        self.all_orphans().map_or(true, |children| children.into_iter().any(is_unknown))
    }
}
