//! What the process of a task does between fork and exec: what must hold for the program's first instruction,
//! and can't be done by the shepherd, which serves all jobs.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::actor::Identity;

/// The steps, in their order.
#[derive(Debug, Default)]
pub(super) struct BeforeExec {
    /// The terminal that becomes the controlling one of a new session.
    pub(super) terminal: Option<OwnedFd>,
    /// The CPUs to run on.
    pub(super) cpus: Option<CpuSet>,
    /// The resource limits to set.
    pub(super) limits: Vec<(Resource, Rlimit)>,
    /// The user to become, and the working directory to enter as that user.
    pub(super) user: Option<(Arc<Identity>, CString)>,
}

impl BeforeExec {
    /// Lets the process of `command` take these steps. Without any, the process is started in the faster way
    /// that needs no fork.
    pub(super) fn apply(self, command: &mut Command) {
        let Self { terminal, cpus, limits, user } = &self;
        if terminal.is_some() || cpus.is_some() || !limits.is_empty() || user.is_some() {
            install(command, self);
        }
    }

    fn run(&self) -> io::Result<()> {
        if let Some(terminal) = &self.terminal {
            setsid()?;
            ioctl_tiocsctty(terminal)?;
        }
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(None, cpus)?;
        }
        for &(resource, limit) in &self.limits {
            setrlimit(resource, limit)?;
        }
        if let Some((identity, directory)) = &self.user {
            identity.assume()?;
            // As the user: root could enter directories that the user may not.
            chdir(directory.as_c_str())?;
        }
        Ok(())
    }
}

/// The only unsafe code of this crate.
#[allow(unsafe_code)]
fn install(command: &mut Command, steps: BeforeExec) {
    // SAFETY: the closure runs in the child between fork and exec. Other threads of the shepherd may have
    // held locks at the moment of the fork, so that only functions are allowed which are safe in a signal
    // handler. The closure reads values that were made before the fork, makes system calls with them, and turns
    // an error number into an `io::Error` that holds nothing but the number: it neither allocates nor frees nor
    // locks. A `CStr` is passed to the system as it is. The child has one thread, so that the calls that change
    // the ids of a thread change those of the process. The closure touches no memory but its own, and of file
    // descriptors only the terminal's, which it owns; it does not unwind. Its values aren't dropped in the
    // child: exec replaces the process, or it exits.
    unsafe {
        command.pre_exec(move || steps.run());
    }
}
