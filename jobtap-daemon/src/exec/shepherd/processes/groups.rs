//! The process groups of jobs, and what is left in them when their tasks have exited.
//!
//! Each task leads a process group, as in Flux. The system gives the id of a group to another process when the last
//! process of the group is gone, and that process may be of another job. So a group is signaled only while a process
//! that the shepherd hasn't reaped yet keeps the id: its leader, or another child of the shepherd in the group.

use std::collections::HashSet;

use jobtap_core::job::{JobId, Reach};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::super::forker::Forker;

use super::super::pids::group::{Group, is_in};
use super::super::pids::signals::signal_task;
use super::super::pids::tasks::Tasks;
use super::super::state::Shepherd;
use super::reap::is_alive;

/// Sends a signal to the tasks of a job and to all processes in their groups. Returns the groups.
pub(in crate::exec::shepherd) fn signal_groups(
    forker: &mut Forker,
    tasks: &Tasks,
    signal: Signal,
) -> HashSet<Pid> {
    for (pid, _) in tasks.running() {
        if !forker.signal(pid, signal, Reach::Group) {
            signal_task(pid, signal, Reach::Group);
        }
    }
    let left = tasks.left.iter().filter(|group| group.is_kept());
    for group in left {
        let _ = kill_process_group(group.id, signal);
    }
    tasks.groups().collect()
}

impl Shepherd {
    /// Looks for the processes that a task left in its group. To be called when the task was reaped.
    pub(super) fn keep_group(&mut self, id: JobId, task: Pid) {
        // Most tasks leave no process. If a process has the id again, the group is not the task's.
        if test_kill_process_group(task).is_err() || is_alive(task) {
            return;
        }
        let members = self.orphans_in(task);
        if let Some(job) = self.jobs.get_mut(&id).filter(|_| !members.is_empty()) {
            job.tasks.left.push(Group { id: task, members });
            self.jobs_with_groups.insert(id);
        }
    }

    /// Updates the processes of the groups that tasks left. To be called before reaping a process that may be the
    /// one that keeps a group.
    pub(super) fn update_groups(&mut self) {
        let mut with_groups = std::mem::take(&mut self.jobs_with_groups);
        with_groups.retain(|id| {
            let Some(job) = self.jobs.get_mut(id) else { return false };
            let mut left = std::mem::take(&mut job.tasks.left);
            left.retain_mut(|group| {
                let kept = group.is_kept();
                if kept {
                    group.members = self.orphans_in(group.id);
                }
                kept
            });
            let any = !left.is_empty();
            if let Some(job) = self.jobs.get_mut(id) {
                job.tasks.left = left;
            }
            any
        });
        self.jobs_with_groups = with_groups;
    }

    /// Handles the reaping of a process that may have kept a group.
    pub(super) fn left_groups(&mut self, pid: Pid) {
        for id in &self.jobs_with_groups {
            for group in self.jobs.get_mut(id).into_iter().flat_map(|job| &mut job.tasks.left) {
                group.members.retain(|member| *member != pid);
            }
        }
    }

    fn orphans_in(&self, group: Pid) -> Vec<Pid> {
        self.orphans().into_iter().filter(|pid| is_in(*pid, group)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use rustix::process::WaitOptions;
    use tokio::sync::mpsc::unbounded_channel;

    use super::super::super::job::Job;
    use super::*;
    use crate::exec::StartJob;
    use crate::open_files::OpenFiles;

    const ID: JobId = JobId::new(7);

    fn sleeper(group: i32) -> (Child, Pid) {
        let child = Command::new("sleep").arg("600").process_group(group).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        (child, pid)
    }

    #[test]
    fn a_group_that_no_process_of_the_job_keeps_is_not_signaled() {
        let (inbox, _messages) = unbounded_channel();
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().to_owned();
        let nonce = format!("groups-{}", std::process::id());
        let open_files = OpenFiles::of_this_process();
        let forker = Forker::for_test(&dir, &nonce).unwrap();
        let mut shepherd = Shepherd::new(dir, nonce, open_files, forker, inbox).unwrap();
        let (mut leader, group) = sleeper(0);
        let (mut member, kept) = sleeper(group.as_raw_pid());
        let (mut elsewhere, left) = sleeper(0);
        let mut job = Job::new(&StartJob::new(ID), None);
        // As if the ids of two groups had been given to other processes, and one was still the job's.
        job.tasks.left.push(Group { id: group, members: Vec::new() });
        job.tasks.left.push(Group { id: group, members: vec![left] });
        shepherd.jobs.insert(ID, job);
        shepherd.jobs_with_groups.insert(ID);
        let status = |pid| rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).unwrap();
        shepherd.signal(ID, Signal::KILL);
        assert_eq!(shepherd.jobs[&ID].tasks.groups().count(), 0);
        shepherd.update_groups();
        assert!(shepherd.jobs[&ID].tasks.left.is_empty() && shepherd.jobs_with_groups.is_empty());
        assert!(status(group).is_none() && status(kept).is_none(), "no process was signaled");
        let job = shepherd.jobs.get_mut(&ID).unwrap();
        job.tasks.left.push(Group { id: group, members: vec![kept] });
        shepherd.signal(ID, Signal::KILL);
        for child in [&mut leader, &mut member] {
            assert!(!child.wait().unwrap().success());
        }
        assert!(status(left).is_none(), "another group");
        elsewhere.kill().unwrap();
        elsewhere.wait().unwrap();
    }
}
