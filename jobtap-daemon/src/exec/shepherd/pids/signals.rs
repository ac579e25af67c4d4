//! Signals to the processes of tasks.

use jobtap_core::job::Reach;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::group::is_in;

/// Sends a signal to the process of a task and, if it reaches that far, to the group that it leads. The process must be a
/// child of this process that isn't reaped: until then its id can't belong to another process.
pub(in crate::exec::shepherd) fn signal_task(task: Pid, signal: Signal, reach: Reach) {
    if reach == Reach::Task {
        return send(task, signal);
    }
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
