//! A command with the processes that it has started: a group that gets its signals together, and ends with whoever runs
//! it.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A command and its process group. All of the group are killed when this is dropped before the command has ended.
pub struct ProcessGroup {
    /// The command.
    pub child: Child,
}

impl ProcessGroup {
    /// Starts a command in a group of its own, so that Ctrl-C at a terminal doesn't reach it.
    ///
    /// # Errors
    /// The command can't be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.process_group(0).spawn()? })
    }

    /// Sends a signal to the group. The id of a process that hasn't been waited for can't belong to another one.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        // Fails when all have exited, which is harmless.
        let _ = pid.map(|pid| kill_process_group(pid, signal));
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
