//! Signals to the processes of tasks.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::group::is_in;

/// Sends a signal to the process of a task and to the group that it leads. It must be a child of this process that
/// isn't reaped: until then its id can't belong to another process.
pub(in crate::exec::shepherd) fn signal_task(task: Pid, signal: Signal) {
    // A new process may not have begun its group yet. Later it can't leave it, since it leads a session.
    if !is_in(task, task) {
        send(task, signal);
    }
    let _ = kill_process_group(task, signal);
}

/// Sends a signal to a child that isn't reaped yet. The signal is refused if the child runs as another user by now (a
/// set-user-ID program); nothing more can be done about such a process.
pub(in crate::exec::shepherd) fn send(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}
