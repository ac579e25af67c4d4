//! A command and the processes that it has started. They form a process group: signals reach all of it, and all of it is
//! killed when its owner drops it.

use std::io;
use std::path::Path;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::Receiver;

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

    /// Waits until the output of all its processes has been passed on by `copied`, and then for the command. Until then,
    /// the group gets the signals.
    ///
    /// The command is waited for last. Until then the system can't reuse its id, which is also the group's: processes that
    /// it leaves behind with its output open still get signals, and are killed when this is dropped.
    ///
    /// # Errors
    /// The command can't be waited for.
    pub async fn run<C>(
        &mut self,
        copied: impl Future<Output = C>,
        signals: &mut Receiver<Signal>,
    ) -> io::Result<(ExitStatus, C)> {
        tokio::pin!(copied);
        let copied = loop {
            tokio::select! {
                copied = &mut copied => break copied,
                Some(signal) = signals.recv() => self.signal(signal),
            }
        };
        loop {
            tokio::select! {
                status = self.child.wait() => return Ok((status?, copied)),
                Some(signal) = signals.recv() => self.signal(signal),
            }
        }
    }

    /// Sends a signal to the group. The id of a process that hasn't been waited for can't belong to another one.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        // Fails when all have exited, which is harmless.
        let _ = pid.map(|pid| kill_process_group(pid, signal));
    }
}

/// Whether a process can have this directory.
///
/// # Errors
/// It can't.
pub fn can_enter(directory: &Path) -> io::Result<()> {
    // Finding `.` takes the same permission, and no other.
    std::fs::metadata(directory.join(".")).map(drop)
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
