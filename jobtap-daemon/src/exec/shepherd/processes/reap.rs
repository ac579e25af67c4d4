//! Reaps processes, and sends signals to those that belong to a job.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use jobtap_core::job::{self, JobId};
use rustix::process::{Pid, Signal, WaitOptions, getpgid, wait};

use super::super::message::Message;
use super::super::state::Shepherd;
use crate::exec::{KillPolicy, signals};

impl Shepherd {
    /// Reaps the children that have exited: tasks, and orphans.
    pub(in crate::exec::shepherd) fn reap(&mut self) {
        self.check_forker();
        loop {
            if !self.jobs_with_groups.is_empty() {
                self.update_groups();
            }
            let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) else { return };
            if self.forker.pid() == Some(pid) {
                self.forker_died();
                continue;
            }
            // It may be a child of a forker that has just died, whose reports come first.
            if !self.tasks.contains_key(&pid) {
                self.check_forker();
            }
            self.reaped(pid, ExitStatus::from_raw(status.as_raw()));
        }
    }

    /// Handles a process that was reaped, by the shepherd or by its forker.
    pub(in crate::exec::shepherd) fn reaped(&mut self, pid: Pid, status: ExitStatus) {
        let Some(id) = self.tasks.remove(&pid) else {
            self.left_groups(pid);
            self.orphan_reaped(pid);
            return;
        };
        self.keep_group(id, pid);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let timeout = job.task_exited(pid, status);
        if !job.needs_processes() {
            self.kill_leftovers(id);
            // While a process executes another program, its environment is empty for a moment, so
            // `kill_leftovers` may have missed it.
            self.sweep_soon();
        }
        self.time_others(id, timeout);
        self.end_if_done(id);
    }

    /// Starts the time limit for the other tasks of a job, after the exit of the first one.
    pub(in crate::exec::shepherd) fn time_others(&self, id: JobId, timeout: Option<Duration>) {
        if let Some(timeout) = timeout {
            self.after(timeout, Message::ExitTimeout { id });
        }
    }

    /// Ends a job that has no tasks and streams left, and kills the processes that it left behind.
    pub(in crate::exec::shepherd) fn end_if_done(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if !job.end_if_done(self.ahead.after(id)) {
            return;
        }
        let left = !job.tasks.left.is_empty();
        self.forker.forget(id);
        // Most jobs leave no process behind. Finding those that left the process group takes a search of
        // all children, so that is left to the next sweep, which serves many jobs at once.
        if left {
            self.kill_leftovers(id);
        }
        self.sweep_soon();
        self.remove_if_acknowledged(id);
        self.begin_after(id);
    }

    /// Removes a job that has ended and whose end a manager has acknowledged.
    pub(in crate::exec::shepherd) fn remove_if_acknowledged(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.has_ended() && job.acknowledged) {
            self.jobs.remove(&id);
            self.claims.forget(id);
        }
    }

    /// Sends a signal to all processes of a job.
    pub(in crate::exec::shepherd) fn signal(&mut self, id: JobId, signal: Signal) {
        if self.jobs.get(&id).is_some_and(|job| !job.has_ended()) {
            self.signal_processes(id, signal);
        }
    }

    /// Begins to end a job.
    pub(in crate::exec::shepherd) fn cancel(
        &mut self,
        id: JobId,
        first: job::Signal,
        policy: KillPolicy,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if !job.cancel(policy) {
            return;
        }
        // A signal that can't be sent must not delay the end of the job.
        self.signal(id, signals::to_processes(first).unwrap_or(Signal::TERM));
        self.after(policy.patience(), Message::KillRound { id });
        self.end_if_done(id);
    }

    /// Begins to end all jobs, each with the kill policy of the manager that requested it last.
    pub(in crate::exec::shepherd) fn cancel_all(&mut self) {
        let jobs: Vec<_> = self.jobs.values().map(|job| (job.id, job.kill)).collect();
        for (id, kill) in jobs {
            self.cancel(id, kill.term_signal, kill);
        }
    }

    fn after(&self, pause: Duration, message: Message) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // Fails only if the shepherd has ended.
            let _ = inbox.send(message);
        });
    }

    /// Kills a job that hasn't ended since the last signal.
    pub(in crate::exec::shepherd) fn kill_round(&mut self, id: JobId) {
        let left = self.has_leftovers(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(cancel) = job.state.cancel() else { return };
        let policy = cancel.policy;
        cancel.kills = cancel.kills.saturating_add(1);
        let kills = cancel.kills;
        if job.tasks.are_reaped() && std::mem::replace(&mut cancel.draining, true) && !left {
            // All processes known to be the job's were killed a round ago and are gone. A process that
            // can't be attributed to the job may still have its streams open.
            job.streams.stop();
            self.end_if_done(id);
            return;
        }
        if kills > policy.max_kill_count {
            job.give_up(left);
        }
        let signal = signals::to_processes(policy.kill_signal).unwrap_or(Signal::KILL);
        self.signal(id, signal);
        self.after(policy.pause_after(kills), Message::KillRound { id });
        if let Some(limit) = policy.limit().filter(|_| kills == 1) {
            self.after(limit, Message::GiveUp { id });
        }
    }

    /// Reports that a job can't be killed. Kill signals are still sent to it.
    pub(in crate::exec::shepherd) fn give_up(&mut self, id: JobId) {
        let left = self.has_leftovers(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.give_up(left);
        }
    }

    /// Whether processes that a job's tasks left behind are alive.
    fn has_leftovers(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| job.tasks.are_reaped()) else {
            return false;
        };
        let groups: Vec<Pid> = job.tasks.groups().collect();
        let ours = |pid: Pid| {
            getpgid(Some(pid)).is_ok_and(|group| groups.contains(&group))
                || self.job_of(pid) == Some(id)
        };
        self.orphans().into_iter().any(|pid| is_alive(pid) && ours(pid))
    }
}

/// Whether a process exists and is not a zombie.
pub(super) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    // The name is in parentheses and may itself contain any character, so the state follows the last ')'.
    let state = stat.ok().and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use tokio::sync::mpsc::unbounded_channel;

    use super::super::super::forker::Forker;
    use super::super::super::job::Job;
    use super::super::super::pids::token;
    use jobtap_core::engine::ExecEvent;
    use jobtap_core::job::TaskMap;

    use super::*;

    const ID: JobId = JobId::new(7);
    use crate::exec::protocol::ShepherdMessage;
    use crate::exec::{NodeTasks, StartJob};
    use crate::open_files::OpenFiles;

    /// A process that ends with the test, even if the test fails.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_canceled_job_ends_only_when_its_orphans_are_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (inbox, _messages) = unbounded_channel();
        let nonce = format!("left-behind-{}", std::process::id());
        let open_files = OpenFiles::of_this_process();
        let state = tempfile::tempdir().unwrap();
        let forker = Forker::for_test(state.path(), &nonce).unwrap();
        let dir = state.path().to_owned();
        let mut shepherd = Shepherd::new(dir, nonce, open_files, forker, inbox).unwrap();
        let (outbox, mut replies) = unbounded_channel();
        let nodes = [3, 5].map(|rank| NodeTasks { rank, ntasks: 1 });
        let taskmap = TaskMap::block(&[1, 1]);
        let start = StartJob { ntasks: 2, nodes: nodes.into(), taskmap, ..StartJob::new(ID) };
        let mut job = Job::new(&start, Some(outbox));
        job.streams.open_one();
        // A signal without effect, as any signal is for a process that hangs in a dead file system.
        let kill_signal = "CONT".parse().unwrap();
        let policy = KillPolicy { kill_signal, max_kill_count: 2, ..KillPolicy::default() };
        assert!(job.cancel(policy));
        shepherd.jobs.insert(ID, job);
        let (name, token) = token::of_job(&shepherd.nonce, ID);
        let left = Command::new("sleep").arg("600").env(name, token).spawn().unwrap();
        let left = Process(left);
        // The environment is visible only once the child has executed its program.
        let pid = Pid::from_raw(i32::try_from(left.0.id()).unwrap()).unwrap();
        while shepherd.job_of(pid) != Some(ID) {
            std::thread::yield_now();
        }

        for _ in 0..4 {
            shepherd.kill_round(ID);
            assert!(!shepherd.jobs[&ID].has_ended());
        }
        drop(left);
        shepherd.kill_round(ID);
        assert!(shepherd.jobs[&ID].has_ended());
        let mut drained = Vec::new();
        while let Ok(ShepherdMessage::Event(event)) = replies.try_recv() {
            if let ExecEvent::Unkillable { ranks, .. } = event {
                drained.push(ranks.to_string());
            }
        }
        assert_eq!(drained, ["3,5"], "reported once");
    }
}
