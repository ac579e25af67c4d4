//! What a forker keeps about the jobs of its shepherd, so that it can take the shepherd's place.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use jobtap_core::job::JobId;
use rustix::process::Pid;

use super::request::ShepherdEnd;

/// The jobs whose tasks a forker has started, and that haven't ended.
#[derive(Debug, Default)]
pub(in crate::exec::shepherd) struct ForkedJobs {
    pub(in crate::exec::shepherd) jobs: BTreeMap<JobId, ForkedJob>,
    /// The processes that aren't reaped yet.
    running: HashMap<Pid, JobId>,
}

/// A job and the processes of its tasks.
#[derive(Debug, Default)]
pub(in crate::exec::shepherd) struct ForkedJob {
    /// The shepherd's record of the job in JSON, which came with its first task.
    pub(in crate::exec::shepherd) record: Option<String>,
    pub(in crate::exec::shepherd) tasks: Vec<ForkedTask>,
}

/// The process of a task, and the shepherd's ends of its streams.
#[derive(Debug)]
pub(in crate::exec::shepherd) struct ForkedTask {
    pub(in crate::exec::shepherd) rank: u32,
    pub(in crate::exec::shepherd) pid: Pid,
    /// Its wait status, once it has exited.
    pub(in crate::exec::shepherd) status: Option<i32>,
    pub(in crate::exec::shepherd) ends: Vec<(ShepherdEnd, OwnedFd)>,
}

impl ForkedJobs {
    /// Adds a new process of a job.
    pub(super) fn add(&mut self, id: JobId, record: Option<String>, task: ForkedTask) {
        self.running.insert(task.pid, id);
        let job = self.jobs.entry(id).or_default();
        job.record = record.or(job.record.take());
        job.tasks.push(task);
    }

    /// Whether this process was started by the forker and isn't reaped yet.
    pub(super) fn is_running(&self, pid: Pid) -> bool {
        self.running.contains_key(&pid)
    }

    /// Notes that a process has exited and is reaped.
    pub(super) fn exited(&mut self, pid: Pid, status: i32) {
        let Some(id) = self.running.remove(&pid) else { return };
        let tasks = self.jobs.get_mut(&id).into_iter().flat_map(|job| &mut job.tasks);
        for task in tasks.filter(|task| task.pid == pid && task.status.is_none()) {
            task.status = Some(status);
        }
    }

    /// Takes the end of the input of a task, to be closed.
    pub(super) fn take_input(&mut self, pid: Pid) -> Vec<OwnedFd> {
        let job = self.running.get(&pid).and_then(|id| self.jobs.get_mut(id));
        let tasks = job.into_iter().flat_map(|job| &mut job.tasks);
        let ends = tasks
            .filter(|task| task.pid == pid)
            .flat_map(|task| task.ends.extract_if(.., |(end, _)| *end == ShepherdEnd::Input));
        ends.map(|(_, file)| file).collect()
    }

    /// Forgets a job that has ended. Its processes, if it has left any, are still reaped. Returns the ends of its
    /// streams, to be closed.
    pub(super) fn forget(&mut self, id: JobId) -> Vec<OwnedFd> {
        let tasks = self.jobs.remove(&id).into_iter().flat_map(|job| job.tasks);
        tasks.flat_map(|task| task.ends).map(|(_, file)| file).collect()
    }
}
