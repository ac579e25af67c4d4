//! Reaps processes, and sends signals to those that belong to a job.

use std::collections::HashSet;
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, kill_process, kill_process_group, wait, waitpid,
};

use super::job::{Cancel, Job};
use super::{Message, Shepherd};
use crate::exec::KillPolicy;

impl Shepherd {
    /// Reaps whatever has ended: tasks, and strangers that came here when their parents died.
    ///
    /// The first task of a job whose start isn't over stays unreaped, so that its process group
    /// is there for the tasks to come. The kernel can't leave it out, so all others are asked for
    /// one by one then, and strangers wait.
    pub(super) fn reap(&mut self) {
        if self.leaders.is_empty() {
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                self.reaped(pid, status);
            }
            return;
        }
        let mut tasks: HashSet<Pid> = self.tasks.keys().copied().collect();
        for leader in self.leaders.values() {
            tasks.remove(leader);
        }
        for pid in tasks {
            if let Ok(Some((pid, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                self.reaped(pid, status);
            }
        }
    }

    fn reaped(&mut self, pid: Pid, status: WaitStatus) {
        let Some(id) = self.tasks.remove(&pid) else {
            self.stranger_ended(pid);
            return;
        };
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.task_exited(pid, status);
        if !job.is_live() {
            self.kill_leftovers(id);
            // A process that is just being replaced by its next program has no environment to
            // be known by.
            self.sweep_soon();
        }
        self.end_if_done(id);
    }

    /// Ends a job of which nothing is left, and kills what it left behind.
    pub(super) fn end_if_done(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if !job.end_if_done() {
            return;
        }
        // The usual job leaves nobody; only to look through all processes would tell for sure, and
        // one look does for many jobs.
        let members =
            job.group.is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok());
        if members {
            self.kill_leftovers(id);
        }
        self.sweep_soon();
        self.forget_if_over(id);
    }

    /// Forgets a job that has ended and whose end is no news to anybody.
    pub(super) fn forget_if_over(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.ended() && job.acknowledged) {
            self.jobs.remove(&id);
            self.claims.forget(id);
        }
    }

    /// Sends a signal to all processes of a job.
    pub(super) fn signal(&self, id: JobId, signal: Signal) {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.ended()) else {
            return;
        };
        let mut group = None;
        for (pid, _) in &job.running {
            // A task that isn't reaped keeps the number of its group from being given out again.
            match getpgid(Some(*pid)) {
                Ok(current) if Some(current) == job.group => group = job.group,
                _ => send(*pid, signal),
            }
        }
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
        self.signal_strangers(job, group, signal);
    }

    /// Begins to end a job.
    pub(super) fn cancel(&mut self, id: JobId, first: Signal, policy: KillPolicy) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.ended() || job.cancel.is_some() {
            return;
        }
        job.cancel = Some(Cancel::new(policy));
        self.end_launch(id);
        self.signal(id, first);
        self.after(policy.patience(), Message::KillRound { id });
        self.end_if_done(id);
    }

    /// Begins to end all jobs, each as the manager would that asked for it last.
    pub(super) fn cancel_all(&mut self) {
        let jobs: Vec<_> = self.jobs.values().map(|job| (job.id, job.kill)).collect();
        for (id, kill) in jobs {
            let first = Signal::from_named_raw(kill.term_signal.number()).unwrap_or(Signal::TERM);
            self.cancel(id, first, kill);
        }
    }

    fn after(&self, pause: Duration, message: Message) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = inbox.send(message);
        });
    }

    /// Kills a job that hasn't ended since the last signal.
    pub(super) fn kill_round(&mut self, id: JobId) {
        let left = self.has_leftovers(id);
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.ended()) else {
            return;
        };
        let Some(cancel) = &mut job.cancel else {
            return;
        };
        let policy = cancel.policy;
        cancel.kills = cancel.kills.saturating_add(1);
        let kills = cancel.kills;
        if job.running.is_empty() && std::mem::replace(&mut cancel.draining, true) && !left {
            // All that can be told to be the job's was killed a round ago, and is gone.
            job.stop_pumps();
            self.end_if_done(id);
            return;
        }
        if kills > policy.max_kill_count {
            job.give_up(left);
        }
        let signal = Signal::from_named_raw(policy.kill_signal.number()).unwrap_or(Signal::KILL);
        self.signal(id, signal);
        self.after(policy.pause_after(kills), Message::KillRound { id });
        if let Some(limit) = policy.limit().filter(|_| kills == 1) {
            self.after(limit, Message::GiveUp { id });
        }
    }

    /// Says that a job can't be killed; it is killed on.
    pub(super) fn give_up(&mut self, id: JobId) {
        let left = self.has_leftovers(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.give_up(left);
        }
    }

    /// Whether processes live that a job's tasks left behind when they ended.
    fn has_leftovers(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| job.running.is_empty()) else {
            return false;
        };
        let ours = |pid: Pid| {
            (job.group.is_some() && getpgid(Some(pid)).ok() == job.group)
                || self.owner(pid) == Some(id)
        };
        self.strangers().into_iter().any(|pid| is_alive(pid) && ours(pid))
    }
}

/// Whether a child is more than the entry that is left of it until it is reaped.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    // Any character may be in the name, which is in parentheses; the state is behind it.
    let state = stat.ok().and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Kills the tasks of a job that failed to start as a whole. The first has not been reaped, so that
/// the number of its group can't mean another one.
pub(super) fn kill_group(job: &Job) {
    for (pid, _) in &job.running {
        send(*pid, Signal::KILL);
    }
    if let Some(group) = job.group.filter(|_| !job.running.is_empty()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Sends a signal to a child that isn't reaped yet. It may have become another user's: then the
/// signal is refused, and nothing else could be done.
pub(super) fn send(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use tokio::sync::mpsc::unbounded_channel;

    use super::super::token;
    use jobtap_core::engine::ExecEvent;

    use super::*;

    const ID: JobId = JobId::new(7);
    use crate::exec::protocol::Reply;
    use crate::exec::{NodeTasks, StartJob};
    use crate::open_files::OpenFiles;

    /// A process that ends with the test, also when that fails.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_canceled_job_is_not_over_while_a_process_lives_that_its_tasks_left_behind() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (inbox, _messages) = unbounded_channel();
        let nonce = format!("left-behind-{}", std::process::id());
        let limits = OpenFiles::of_this_process();
        let state = tempfile::tempdir().unwrap();
        let mut shepherd = Shepherd::new(state.path().to_owned(), nonce, limits, inbox).unwrap();
        let (outbox, mut told) = unbounded_channel();
        let nodes = [3, 5].map(|rank| NodeTasks { rank, ntasks: 1 });
        let start = StartJob { ntasks: 2, nodes: nodes.into(), ..StartJob::new(ID) };
        let mut job = Job::new(&start, Some(outbox));
        job.open_streams = 1;
        // A signal of no use, as any is to what hangs in a dead file system.
        let kill_signal = "CONT".parse().unwrap();
        let policy = KillPolicy { kill_signal, max_kill_count: 2, ..KillPolicy::default() };
        job.cancel = Some(Cancel::new(policy));
        shepherd.jobs.insert(ID, job);
        let (name, token) = token::of_job(&shepherd.nonce, ID);
        let left = Command::new("sleep").arg("600").env(name, token).spawn().unwrap();
        let left = Process(left);
        // A process has its environment only a moment after it has begun.
        let pid = Pid::from_raw(i32::try_from(left.0.id()).unwrap()).unwrap();
        while shepherd.owner(pid) != Some(ID) {
            std::thread::yield_now();
        }

        for _ in 0..4 {
            shepherd.kill_round(ID);
            assert!(!shepherd.jobs[&ID].ended());
        }
        drop(left);
        shepherd.kill_round(ID);
        assert!(shepherd.jobs[&ID].ended());
        let mut drained = Vec::new();
        while let Ok(Reply::Event(event)) = told.try_recv() {
            if let ExecEvent::Unkillable { ranks, .. } = event {
                drained.push(ranks.to_string());
            }
        }
        assert_eq!(drained, ["3,5"], "told once");
    }
}
