//! The processes of a job's tasks, and the groups that they left.

use rustix::process::Pid;

use super::group::Group;

/// The processes of one job.
#[derive(Default)]
pub(in crate::exec::shepherd) struct Tasks {
    /// Tasks not yet reaped, with their ranks. Each leads a process group.
    running: Vec<(Pid, u32)>,
    /// The process groups of tasks that have exited and left processes in them.
    pub(in crate::exec::shepherd) left: Vec<Group>,
}

impl Tasks {
    pub(in crate::exec::shepherd) fn add(&mut self, pid: Pid, rank: u32) {
        self.running.push((pid, rank));
    }

    /// Removes a task that isn't to be reaped any more. Returns its rank.
    pub(in crate::exec::shepherd) fn remove(&mut self, pid: Pid) -> Option<u32> {
        let at = self.running.iter().position(|(task, _)| *task == pid)?;
        Some(self.running.swap_remove(at).1)
    }

    /// The tasks not yet reaped, with their ranks.
    pub(in crate::exec::shepherd) fn running(&self) -> impl Iterator<Item = (Pid, u32)> {
        self.running.iter().copied()
    }

    /// Whether all tasks that were started are reaped.
    pub(in crate::exec::shepherd) fn are_reaped(&self) -> bool {
        self.running.is_empty()
    }

    /// The process of the task with this rank.
    pub(in crate::exec::shepherd) fn process(&self, rank: u32) -> Option<Pid> {
        self.running.iter().find(|(_, of)| *of == rank).map(|(pid, _)| *pid)
    }

    /// The ids of the process groups. They are valid until a process is reaped.
    pub(in crate::exec::shepherd) fn groups(&self) -> impl Iterator<Item = Pid> {
        let left = self.left.iter().filter(|group| group.is_kept()).map(|group| group.id);
        self.running.iter().map(|(pid, _)| *pid).chain(left)
    }
}
