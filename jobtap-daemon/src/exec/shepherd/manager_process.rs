//! The process of a manager that takes its jobs with it when it ends.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process that a temporary instance ends with. A manager that restarts in place is the same process.
pub(super) enum ManagerProcess {
    Running(OwnedFd),
    /// It had already ended when it was looked up.
    Gone,
}

impl ManagerProcess {
    /// The process with this id, which has started the shepherd.
    pub(super) fn open(pid: Pid) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok(Self::Running(process)),
            Err(Errno::SRCH) => Ok(Self::Gone),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        let Self::Running(process) = self else { return true };
        // It can be read once the process has ended.
        let mut waiting = [PollFd::new(process, PollFlags::IN)];
        poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}
