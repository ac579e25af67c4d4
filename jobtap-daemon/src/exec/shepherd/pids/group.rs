//! A process group that a task has left, and the processes that keep its id from being reused.

use rustix::process::{Pid, getpgid};

/// A process group whose leader, a task, was reaped.
#[derive(Debug)]
pub(in crate::exec::shepherd) struct Group {
    pub(in crate::exec::shepherd) id: Pid,
    /// Children of the shepherd that were in the group when they were looked for, and aren't reaped yet.
    pub(in crate::exec::shepherd) members: Vec<Pid>,
}

impl Group {
    /// Whether a process keeps the id of the group from being reused.
    pub(in crate::exec::shepherd) fn is_kept(&self) -> bool {
        self.members.iter().any(|pid| is_in(*pid, self.id))
    }
}

/// Whether a process is in a group.
pub(in crate::exec::shepherd) fn is_in(pid: Pid, group: Pid) -> bool {
    getpgid(Some(pid)) == Ok(group)
}
