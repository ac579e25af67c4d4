//! A shepherd whose processes are played: it claims jobs on its own disk, starts them, and keeps their ends until they are
//! acknowledged. What it tells managers is made by the shepherd's own records of jobs.

use std::collections::{BTreeMap, BTreeSet};

use jobtap_core::engine::{ExecEvent, RaisedException};
use jobtap_core::job::{JobId, TaskMap};
use jobtap_daemon::exec::protocol::{Resumed, ShepherdMessage, ShepherdRequest, VERSION};
use jobtap_daemon::exec::{
    Ahead, HeldJob, JobCommand, KillPolicy, PlayedJob, Seen, StartJob, TaskProcess,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::dice::Dice;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// The wait status of a process that a signal has ended.
const TERMINATED: i32 = 15;

/// A process of a task.
struct Task {
    process: i32,
    rank: u32,
    /// When it exits, and with which status; `None` if it only ends by a signal.
    ends: Option<(u64, i32)>,
    /// Whether no signal ends it.
    is_stuck: bool,
}

/// A job that the shepherd knows.
enum Held {
    /// Its claim isn't durable, and nothing runs.
    Claiming(Box<StartJob>),
    Begun {
        job: Box<PlayedJob>,
        tasks: Vec<Task>,
        acknowledged: bool,
        /// The ids of the cores that its processes use.
        start: Box<StartJob>,
    },
}

/// A start of processes, for the oracle.
pub struct Started {
    /// The job as it was asked for.
    pub job: StartJob,
    /// The rank of the node.
    pub rank: u32,
}

/// The shepherd of one node.
pub struct Shepherd {
    jobs: BTreeMap<JobId, Held>,
    /// Claims that are durable.
    claims: BTreeSet<JobId>,
    /// Claims that an earlier shepherd has made.
    earlier: BTreeSet<JobId>,
    /// Jobs to begin after others.
    ahead: Ahead,
    outbox: UnboundedSender<ShepherdMessage>,
    said: UnboundedReceiver<ShepherdMessage>,
    is_connected: bool,
    last_process: i32,
    /// Whether the node's disk takes no claims.
    pub disk_fails: bool,
    /// Whether each process can be killed from now on.
    pub is_calm: bool,
}

impl Default for Shepherd {
    fn default() -> Self {
        let (outbox, said) = unbounded_channel();
        let (jobs, claims, earlier, ahead) = Default::default();
        let (is_connected, last_process, disk_fails, is_calm) = Default::default();
        Self {
            jobs,
            claims,
            earlier,
            ahead,
            outbox,
            said,
            is_connected,
            last_process,
            disk_fails,
            is_calm,
        }
    }
}

impl Shepherd {
    /// The jobs whose processes run, with the cores that they were given.
    pub fn running(&self) -> impl Iterator<Item = (JobId, &StartJob)> {
        self.jobs.iter().filter_map(|(id, held)| match held {
            Held::Begun { tasks, start, .. } if !tasks.is_empty() => Some((*id, &**start)),
            _ => None,
        })
    }

    /// Whether it knows no job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.claims.is_empty() && self.earlier.is_empty()
    }

    /// What it knows, in short.
    #[must_use]
    pub fn shown(&self) -> String {
        let held = self.jobs.iter().map(|(id, held)| match held {
            Held::Claiming(_) => format!("{id} claiming"),
            Held::Begun { job, tasks, acknowledged, .. } => format!(
                "{id} {} tasks, ended {}, acknowledged {acknowledged}",
                tasks.len(),
                job.has_ended()
            ),
        });
        let earlier = self.earlier.iter().map(|id| format!("{id} claimed earlier"));
        let claims = self.claims.iter().filter(|id| !self.jobs.contains_key(id));
        let claims = claims.map(|id| format!("{id} claimed"));
        held.chain(earlier).chain(claims).collect::<Vec<_>>().join("; ")
    }

    /// The node has gone down: its processes are gone, and so is what no disk has.
    pub fn reboot(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        let earlier = std::mem::take(&mut self.earlier);
        let (last_process, disk_fails) = (self.last_process, false);
        *self = Self { last_process, disk_fails, ..Self::default() };
        self.earlier = earlier.into_iter().chain(claims).collect();
    }

    /// Its manager is gone.
    pub fn disconnect(&mut self) {
        self.is_connected = false;
        drop(self.ahead.clear());
        for held in self.jobs.values_mut() {
            if let Held::Begun { job, .. } = held {
                job.detach();
            }
        }
        while self.said.try_recv().is_ok() {}
    }

    /// What it has said since the last call.
    pub fn take_said(&mut self) -> Vec<ShepherdMessage> {
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }

    fn say(&self, message: ShepherdMessage) {
        // This end is never closed.
        let _ = self.outbox.send(message);
    }

    /// Carries out a request of its manager.
    pub fn request(&mut self, request: ShepherdRequest, now: u64, dice: &mut Dice) {
        match request {
            ShepherdRequest::Hello { .. } => {
                self.disconnect();
                self.is_connected = true;
                self.say(ShepherdMessage::Hello { version: VERSION, pid: 1 });
            }
            ShepherdRequest::List => self.list(),
            ShepherdRequest::Start(job) => match job.after {
                Some(before) if !self.jobs.contains_key(&job.id) => self.start_after(before, job),
                _ => self.start_or_attach(job),
            },
            ShepherdRequest::Resume { jobs } => self.resume(&jobs),
            ShepherdRequest::Shutdown => {}
            ShepherdRequest::Job(command) => self.command(command, now, dice),
        }
    }

    fn list(&self) {
        let held = |(id, held): (&JobId, &Held)| {
            let (ended, start) = match held {
                Held::Claiming(start) => (false, start),
                Held::Begun { job, start, .. } => (job.has_ended(), start),
            };
            HeldJob { id: *id, ended, after: start.after }
        };
        let lost = self.earlier.iter().filter(|id| !self.jobs.contains_key(id));
        let lost = lost.map(|id| HeldJob::new(*id, true));
        let jobs = self.jobs.iter().map(held).chain(lost).collect();
        self.say(ShepherdMessage::List { jobs });
    }

    fn start_or_attach(&mut self, start: Box<StartJob>) {
        let id = start.id;
        match self.jobs.get_mut(&id) {
            Some(Held::Begun { job, .. }) => {
                job.attach(&self.outbox, start.reattach, start.seen);
            }
            Some(Held::Claiming(claiming)) => *claiming = start,
            None if start.reattach || self.earlier.contains(&id) => {
                self.report_lost(id, start.seen);
            }
            None => drop(self.jobs.insert(id, Held::Claiming(start))),
        }
    }

    /// As a shepherd does with a job that is to begin after another one.
    fn start_after(&mut self, before: JobId, start: Box<StartJob>) {
        match self.jobs.get(&before) {
            Some(Held::Begun { job, .. }) if !job.is_attached() => {}
            Some(Held::Begun { job, .. }) if job.has_ended() => {
                self.say(ShepherdMessage::Event(ExecEvent::Begun { id: start.id }));
                self.start_or_attach(start);
            }
            None if !self.ahead.has(before) => {}
            _ => self.ahead.add(before, start),
        }
    }

    /// Gives a job back that hasn't begun, or says that it has.
    fn recall(&mut self, id: JobId) {
        match self.jobs.get_mut(&id) {
            None => {
                self.ahead.forget(id);
                self.say(ShepherdMessage::Event(ExecEvent::Recalled { id }));
            }
            Some(held) => {
                let begun = ShepherdMessage::Event(ExecEvent::Begun { id });
                let _ = self.outbox.send(begun);
                if let Held::Begun { job, .. } = held
                    && !job.is_attached()
                {
                    job.attach(&self.outbox, false, Seen::default());
                }
            }
        }
    }

    fn resume(&mut self, resumed: &[Resumed]) {
        for resumed in resumed {
            match self.jobs.get_mut(&resumed.id) {
                Some(Held::Begun { job, .. }) => job.resume(&self.outbox, *resumed),
                Some(Held::Claiming(_)) => {}
                None => self.report_lost(resumed.id, resumed.seen),
            }
        }
        let known: BTreeSet<JobId> = resumed.iter().map(|job| job.id).collect();
        for (id, held) in &mut self.jobs {
            if let Held::Begun { job, acknowledged, .. } = held
                && job.has_ended()
                && !known.contains(id)
            {
                *acknowledged = true;
            }
        }
        self.forget_acknowledged();
    }

    fn report_lost(&self, id: JobId, seen: Seen) {
        if !seen.finished {
            let exception = RaisedException::new("exec", 0, "job is lost");
            self.say(ShepherdMessage::Event(ExecEvent::Exception { id, exception }));
        }
        self.say(ShepherdMessage::Event(ExecEvent::Released { id }));
    }

    fn command(&mut self, command: JobCommand, now: u64, dice: &mut Dice) {
        match command {
            JobCommand::Cancel { id, kill, .. } => self.cancel(id, kill, now, dice),
            JobCommand::Signal { id, signal, .. } => {
                if let Some(Held::Begun { tasks, .. }) = self.jobs.get_mut(&id)
                    && matches!(signal.number(), 9 | 15)
                {
                    signaled(tasks, now + dice.below(SECOND / 10), signal.number());
                }
            }
            JobCommand::Tasks { id } => {
                let tasks = match self.jobs.get(&id) {
                    Some(Held::Begun { tasks, .. }) => tasks
                        .iter()
                        .map(|task| TaskProcess { rank: task.rank, pid: task.process })
                        .collect(),
                    _ => Vec::new(),
                };
                self.say(ShepherdMessage::Tasks { id, tasks });
            }
            JobCommand::Recall { id } => self.recall(id),
            JobCommand::Ack { id } => {
                match self.jobs.get_mut(&id) {
                    Some(Held::Begun { acknowledged, .. }) => *acknowledged = true,
                    Some(Held::Claiming(_)) => {}
                    None => {
                        self.earlier.remove(&id);
                    }
                }
                self.forget_acknowledged();
            }
            _ => {}
        }
    }

    fn cancel(&mut self, id: JobId, kill: KillPolicy, now: u64, dice: &mut Dice) {
        match self.jobs.get_mut(&id) {
            Some(Held::Begun { job, tasks, .. }) if !job.has_ended() => {
                job.cancel(kill);
                signaled(tasks, now + dice.below(SECOND / 2), TERMINATED);
                if tasks.iter().any(|task| task.is_stuck) {
                    job.give_up();
                }
            }
            Some(Held::Claiming(start)) => {
                let note = "canceled before all of its tasks were started";
                let mut job = Box::new(PlayedJob::failed(start, note));
                job.attach(&self.outbox, false, start.seen);
                let (tasks, acknowledged, start) = (Vec::new(), false, start.clone());
                self.jobs.insert(id, Held::Begun { job, tasks, acknowledged, start });
            }
            _ => {}
        }
    }

    fn forget_acknowledged(&mut self) {
        let over = |held: &Held| matches!(held, Held::Begun { job, acknowledged: true, .. } if job.has_ended());
        let ids: Vec<JobId> =
            self.jobs.iter().filter(|(_, held)| over(held)).map(|(id, _)| *id).collect();
        for id in ids {
            self.jobs.remove(&id);
            self.claims.remove(&id);
        }
    }

    /// Makes the claims durable, and starts these jobs. Returns them for the oracle.
    pub fn launch(&mut self, rank: u32, now: u64, dice: &mut Dice) -> Vec<Started> {
        let is_claiming = |held: &Held| matches!(held, Held::Claiming(_));
        let ids: Vec<JobId> =
            self.jobs.iter().filter(|(_, held)| is_claiming(held)).map(|(id, _)| *id).collect();
        let mut all = Vec::new();
        for id in ids {
            let Some(Held::Claiming(start)) = self.jobs.remove(&id) else { continue };
            let mut start = start;
            start.taskmap =
                TaskMap::block(&start.nodes.iter().map(|node| node.ntasks).collect::<Vec<_>>());
            let (mut job, tasks) = if self.disk_fails {
                (PlayedJob::failed(&start, "nothing was started: the claim"), Vec::new())
            } else {
                self.claims.insert(id);
                let tasks = self.tasks(&start, now, dice);
                let processes = tasks.iter().map(|task| (task.process, task.rank));
                let job = PlayedJob::running(&start, processes);
                all.push(Started { job: (*start).clone(), rank });
                (job, tasks)
            };
            if self.is_connected {
                job.attach(&self.outbox, false, start.seen);
            }
            let job = Box::new(job);
            self.jobs.insert(id, Held::Begun { job, tasks, acknowledged: false, start });
        }
        all
    }

    /// The processes of a job's tasks on this node. Its command says how long they run, how they end, and whether they can
    /// be killed.
    fn tasks(&mut self, start: &StartJob, now: u64, dice: &mut Dice) -> Vec<Task> {
        let place = start.part.unwrap_or(0);
        let before: u32 = start.nodes.iter().take(place).map(|node| node.ntasks).sum();
        let own = match start.part {
            Some(part) => start.nodes.get(part).map_or(0, |node| node.ntasks),
            None => start.ntasks,
        };
        let word = |at: usize| start.command.get(at).and_then(|word| word.parse::<u64>().ok());
        let (runs, code) = (word(1), word(2).unwrap_or(0));
        let is_stuck = !self.is_calm && start.command.iter().any(|word| word == "stuck");
        (0..own)
            .map(|task| {
                self.last_process += 1;
                let status = i32::try_from(code).unwrap_or(1) << 8;
                let ends = runs.map(|runs| (now + runs * 1000 + dice.below(20_000), status));
                Task { process: self.last_process, rank: before + task, ends, is_stuck }
            })
            .collect()
    }

    /// Lets the processes exit whose time has come. Returns whether any did.
    pub fn reap(&mut self, now: u64) -> bool {
        let mut next = Vec::new();
        let mut any = false;
        for (id, held) in &mut self.jobs {
            let Held::Begun { job, tasks, .. } = held else { continue };
            let is_over = |task: &Task| task.ends.filter(|(at, _)| *at <= now);
            let over = tasks.iter().filter_map(|task| Some((task.process, is_over(task)?.1)));
            for (process, status) in over.collect::<Vec<_>>() {
                any = true;
                tasks.retain(|task| task.process != process);
                if job.exited(process, status, self.ahead.after(*id)) {
                    next.extend(self.ahead.take_after(*id));
                }
            }
        }
        next.into_iter().for_each(|start| self.start_or_attach(start));
        self.forget_acknowledged();
        any
    }

    /// When the next process exits by itself.
    #[must_use]
    pub fn next_exit(&self) -> Option<u64> {
        let tasks = self.jobs.values().filter_map(|held| match held {
            Held::Begun { tasks, .. } => Some(tasks),
            Held::Claiming(_) => None,
        });
        tasks.flatten().filter_map(|task| Some(task.ends?.0)).min()
    }

    /// Lets processes that no signal has ended be ended after all, as when a file system answers again.
    pub fn unstick(&mut self, now: u64) {
        for held in self.jobs.values_mut() {
            if let Held::Begun { tasks, .. } = held {
                for task in tasks.iter_mut().filter(|task| task.is_stuck) {
                    task.is_stuck = false;
                    task.ends = Some((now, TERMINATED));
                }
            }
        }
    }
}

fn signaled(tasks: &mut [Task], at: u64, status: i32) {
    for task in tasks.iter_mut().filter(|task| !task.is_stuck) {
        let is_sooner = task.ends.is_none_or(|(ends, _)| at < ends);
        if is_sooner {
            task.ends = Some((at, status));
        }
    }
}
