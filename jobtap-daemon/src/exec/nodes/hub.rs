//! The loop that owns the nodes: their connections, what is open on each, and the parts of jobs.
//!
//! Nodes connect, and connect again when their connection was cut. What a node has missed is sent to it then, as to a
//! shepherd that takes another one's place. A node that stays away longer than the grace time is lost: its jobs lose their
//! parts there, and what it still has of them is ended if it comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender as StdSender;
use std::time::Duration;

use jobtap_core::engine::parts::{Begin, Parts};
use jobtap_core::engine::{AllocationId, ExecEvent};
use jobtap_core::eventlog::EventEntry;
use jobtap_core::host::{PluginKey, ProcessCommand};
use jobtap_core::job::JobId;
use jobtap_core::resource::Idset;
use rustix::io::Errno;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::admission::{Admission, Pass};
use super::commands::{self, Asked as AskedCommand, Commands};
use super::inputs::Inputs;
use super::message::{Connection, Message, other_program};
use super::notice::{Notice, Notify};
use super::outputs::Outputs;
use super::places::{Expected, NoPlace, Places};
use super::plugin_processes::{Ordered, refuse};
use super::renumber::renumber;
use super::wire::{Frame, FromNode, NodeInfo, ToNode, node_line, to_shepherd};
use crate::exec::local::OpenJob;
use crate::exec::protocol::{
    Resumed, ShepherdMessage, ShepherdRequest, VERSION, decode_message, encode,
};
use crate::exec::shepherd::{empties_shared_file, limits_others};
use crate::exec::{
    ExecutorReport, HeldJob, JobCommand, KillPolicy, NodeChange, Seen, StartJob, TaskProcess,
};
use crate::open_files::OpenFiles;

/// The entry of the exec eventlog for the exit of a task.
const TASK_EXIT: &str = "shell.task-exit";

/// The interval at which silent and absent nodes are looked for.
const PATROL: Duration = Duration::from_secs(1);

/// The difference between the clocks of two hosts that is worth a warning, in seconds. Events have times, which people
/// compare.
const CLOCKS_DIFFER: f64 = 5.0;

/// How long the engine may take to end a job whose nodes are gone.
const ORPHAN: Duration = Duration::from_secs(5);

/// How long the release of a part waits for that of the job.
const RELEASE: Duration = Duration::from_secs(1);

/// How long a node may be silent before it is pinged.
const PING: Duration = Duration::from_secs(5);

/// How long a node may be silent before its connection counts as cut.
const SILENCE: Duration = Duration::from_secs(15);

/// Why a node is lost that doesn't join after a restart.
const NOT_BACK: &str = "not back after the restart of the manager";

/// How many bytes may be on their way between the manager and a command on its own node.
const OWN_CHANNEL: usize = 1 << 18;

/// How many bytes of commands may wait for a node that is away.
const MOST_QUEUED: usize = 16 << 20;

/// The maximum number of messages that are handled before the reports about them are passed on.
const MOST_TOGETHER: usize = 256;

/// More than a part of a job ever reports: none of its entries is to be repeated.
const ALL: usize = u32::MAX as usize;

/// Takes the reports to the manager.
pub(super) type Report = Box<dyn Fn(ExecutorReport) + Send>;

/// What comes from the manager.
pub(super) enum Request {
    /// Report to the manager from now on.
    Begin(Report),
    /// Go on without the nodes that haven't joined: they are lost.
    GoOn,
    Start(Box<StartJob>),
    Command(JobCommand),
    /// A command about a process of a plugin.
    Process(PluginKey, ProcessCommand),
    /// A command of a client.
    Run(Box<AskedCommand>),
    /// Say what happens to the nodes of allocations from now on.
    Notify(Notify),
    /// The nodes of an allocation may join.
    Expect(AllocationId, Expected),
    /// End the nodes of an allocation, which holds no job any more.
    Dismiss(AllocationId),
    /// An allocation is over, with all that its nodes had.
    Forget(AllocationId),
    /// Let all shepherds exit as soon as they hold no job.
    Shutdown {
        done: StdSender<()>,
    },
}

/// All nodes have joined.
pub(super) struct Complete {
    pub(super) nodes: Vec<NodeInfo>,
    pub(super) held: Vec<HeldJob>,
}

/// Progress reports to the thread that waits until all nodes have joined.
pub(super) enum Joining {
    /// One more.
    Joined(u32),
    /// A node that can't be one of this instance's.
    Refused(String),
    Complete(Complete),
}

/// Why a node can't join.
struct Refusal {
    reason: String,
    /// Whether the others of its allocation are of no use either.
    is_of_all: bool,
}

impl From<NoPlace> for Refusal {
    fn from(no_place: NoPlace) -> Self {
        let is_of_all = matches!(no_place, NoPlace::TooSmall { .. });
        Self { reason: no_place.to_string(), is_of_all }
    }
}

/// What nodes have to fit, or are given in its place.
pub(super) struct Own {
    /// The version of the manager's program.
    pub(super) program: String,
    /// The manager's address, as in the environment of tasks.
    pub(super) uri: String,
    /// The number of the first process of a plugin.
    pub(super) first_process: u64,
}

pub(super) struct Hub {
    nodes: BTreeMap<u32, Node>,
    own: Own,
    /// Whether the nodes were those of an earlier manager.
    is_restart: bool,
    size: u32,
    grace: Duration,
    parts: Parts,
    inputs: Inputs,
    outputs: Outputs,
    /// The parts of jobs that begin when their first node has made the files that all tasks share.
    followers: BTreeMap<JobId, Followers>,
    /// Ranks that were released before their jobs. Most jobs are released soon after, so that it isn't worth an event.
    released: BTreeMap<JobId, Released>,
    /// Jobs with an exit timeout whose first task hasn't exited yet.
    timed: BTreeSet<JobId>,
    /// The exchanges of values between the tasks of jobs.
    exchanges: BTreeMap<JobId, Round>,
    /// Processes of jobs that a client has asked for, as far as nodes have answered.
    asked: BTreeMap<JobId, Asked>,
    /// Commands of clients.
    commands: Commands,
    /// The places of the nodes of allocations, and who may take them.
    places: Places,
    admission: Option<Admission>,
    /// The allocations whose nodes have been told to end.
    dismissed: BTreeSet<AllocationId>,
    /// Jobs with parts on nodes whose allocation is over. The engine ends these jobs by a reason of their own, which has to
    /// come before the ends of their parts.
    orphans: BTreeMap<JobId, Orphan>,
    notify: Option<Notify>,
    report: Option<Report>,
    reports: Vec<ExecEvent>,
    joining: Option<StdSender<Joining>>,
    /// Who waits for the end of all shepherds.
    shutdown: Option<StdSender<()>>,
    /// When it was last looked for silent and absent nodes.
    patrolled: Option<Instant>,
}

/// Parts of a job whose nodes are gone.
struct Orphan {
    since: Instant,
    ranks: BTreeSet<u32>,
}

/// The parts of a job that are to be started when its first node has begun.
struct Followers {
    leader: u32,
    parts: Vec<(u32, StartJob)>,
    /// The request to cancel the job, if it came before.
    cancel: Option<Vec<u8>>,
}

/// An exchange of values between the tasks of a job.
#[derive(Default)]
struct Round {
    number: u32,
    /// What came from each node, by the number of the exchange: after a restart of the manager, they may differ.
    gathered: BTreeMap<u32, BTreeMap<u32, Contribution>>,
    /// The answer to the last exchange, for nodes that have missed it.
    last: Vec<(String, String)>,
}

/// What the tasks of a node tell those of the others.
struct Contribution {
    values: Vec<(String, String)>,
    /// Whether the last manager has sent this node the values of all.
    is_over: bool,
}

/// Ranks of a job that still has others.
struct Released {
    since: Instant,
    ranks: Idset,
}

struct Asked {
    waiting: BTreeSet<u32>,
    tasks: Vec<TaskProcess>,
}

/// A node, from its first joining on.
struct Node {
    info: NodeInfo,
    link: Link,
    /// Since when it has been away, or has been connected without saying what its shepherd holds.
    away: Option<Instant>,
    /// Jobs with parts here whose release has not been reported.
    open: BTreeMap<JobId, OpenJob>,
    /// What its shepherd held when it joined first, as far as the manager hasn't acknowledged it.
    held: Option<Vec<HeldJob>>,
    /// Commands that came while it was away, in their order.
    queued: Vec<Vec<u8>>,
    /// The processes of plugins here.
    processes: Ordered,
    /// By how many seconds its clock was ahead when it joined.
    ahead: f64,
}

enum Link {
    Connected { number: u64, connection: Connection, heard: Instant, pinged: bool },
    Away,
    Lost,
}

impl Node {
    fn new(info: NodeInfo, link: Link) -> Self {
        let (away, held, queued) = (Some(Instant::now()), None, Vec::new());
        let (open, processes, ahead) = Default::default();
        Self { info, link, away, open, held, queued, processes, ahead }
    }

    fn send(&self, line: Vec<u8>) {
        if let Link::Connected { connection, .. } = &self.link {
            // Fails only if the connection has ended.
            let _ = connection.outbox.send(line);
        }
    }

    fn request(&self, request: &ShepherdRequest) {
        if let Ok(line) = encode(request) {
            self.send(to_shepherd(&line));
        }
    }

    /// Sends a command about a job, or keeps it for a node that is away.
    /// Returns false if too many wait already.
    fn command(&mut self, line: Vec<u8>) -> bool {
        if self.is_ready() {
            self.send(line);
        } else if !matches!(self.link, Link::Lost) {
            let waiting: usize = self.queued.iter().map(Vec::len).sum();
            if waiting + line.len() > MOST_QUEUED {
                return false;
            }
            self.queued.push(line);
        }
        true
    }

    /// Ends it with the instance.
    fn end(&self) {
        let kill = KillPolicy::default();
        self.send(node_line(&ToNode::End));
        // No manager comes back for these jobs.
        for id in self.open.keys().copied() {
            let cancel = JobCommand::Cancel { id, signal: kill.term_signal, kill };
            self.request(&ShepherdRequest::Job(cancel));
            self.request(&ShepherdRequest::Job(JobCommand::Ack { id }));
        }
        self.request(&ShepherdRequest::Shutdown);
    }

    /// Puts the address at which the manager is reached here in the place of the manager's own, which is a socket on
    /// another host.
    fn name_manager<'a>(&self, env: impl Iterator<Item = &'a mut String>, own: &str) {
        if let Some(uri) = &self.info.uri {
            env.filter(|value| *value == own).for_each(|value| value.clone_from(uri));
        }
    }

    /// Whether it is connected and has said what its shepherd holds.
    fn is_ready(&self) -> bool {
        matches!(self.link, Link::Connected { .. }) && self.away.is_none()
    }

    fn is_connected(&self, on: u64) -> bool {
        matches!(self.link, Link::Connected { number, .. } if number == on)
    }

    /// The warning about a clock that isn't that of the manager.
    fn clock_warning(&self) -> Option<String> {
        if self.ahead.abs() < CLOCKS_DIFFER {
            return None;
        }
        let (rank, host, seconds) = (self.info.rank, &self.info.host, self.ahead.abs());
        let how = if self.ahead > 0.0 { "ahead of" } else { "behind" };
        Some(format!(
            "rank {rank} ({host}): its clock is {seconds:.0} s {how} the manager's: what its tasks print and do has the \
             times of that clock"
        ))
    }

    fn holds(&self, id: JobId) -> bool {
        self.held.iter().flatten().any(|job| job.id == id)
    }
}

impl Hub {
    pub(super) fn new(
        own: Own,
        size: u32,
        grace: Duration,
        (inputs, outputs): (Inputs, Outputs),
        known: &[NodeInfo],
        admission: Option<Admission>,
        joining: StdSender<Joining>,
    ) -> Self {
        let away = |info: &NodeInfo| (info.rank, Node::new(info.clone(), Link::Away));
        Self {
            nodes: known.iter().map(away).collect(),
            is_restart: !known.is_empty(),
            own,
            size,
            grace,
            parts: Parts::default(),
            inputs,
            outputs,
            followers: BTreeMap::new(),
            released: BTreeMap::new(),
            timed: BTreeSet::new(),
            exchanges: BTreeMap::new(),
            asked: BTreeMap::new(),
            commands: Commands::new(OpenFiles::of_this_process()),
            places: Places::default(),
            admission,
            dismissed: BTreeSet::new(),
            orphans: BTreeMap::new(),
            notify: None,
            report: None,
            reports: Vec::new(),
            joining: Some(joining),
            shutdown: None,
            patrolled: None,
        }
    }

    /// Runs until the manager has dropped its end of `requests`.
    pub(super) async fn run(
        mut self,
        mut messages: Receiver<Message>,
        mut requests: UnboundedReceiver<Request>,
    ) {
        let mut patrol = interval(PATROL);
        patrol.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut asked, mut together) = (Vec::new(), Vec::new());
        loop {
            tokio::select! {
                // In this order: the patrol is rare, and what the manager says is soon done.
                biased;
                _ = patrol.tick() => self.patrol(),
                count = requests.recv_many(&mut asked, MOST_TOGETHER) => match count {
                    0 => return,
                    _ => asked.drain(..).for_each(|request| self.request(request)),
                },
                1.. = messages.recv_many(&mut together, MOST_TOGETHER) => {
                    together.drain(..).for_each(|message| self.handle(message));
                }
            }
            self.flush();
        }
    }

    /// Passes on the reports that have gathered.
    fn flush(&mut self) {
        let mut events = std::mem::take(&mut self.reports);
        events.retain(|event| self.is_due(event));
        if !events.is_empty() {
            self.tell(ExecutorReport::Events(events));
        }
    }

    /// Keeps the release of a part for later, and drops it at the release of the job.
    fn is_due(&mut self, event: &ExecEvent) -> bool {
        match event {
            ExecEvent::PartlyReleased { id, ranks } => {
                let none = || Released { since: Instant::now(), ranks: Idset::new() };
                let released = self.released.entry(*id).or_insert_with(none);
                released.ranks = released.ranks.union(ranks);
                false
            }
            ExecEvent::Released { id } => {
                self.released.remove(id);
                true
            }
            _ => true,
        }
    }

    /// Reports the ranks that were released long before their jobs.
    fn report_released(&mut self) {
        let due = |_: &JobId, released: &mut Released| released.since.elapsed() > RELEASE;
        let due: Vec<_> = self.released.extract_if(.., due).collect();
        let event = |(id, Released { ranks, .. })| ExecEvent::PartlyReleased { id, ranks };
        if !due.is_empty() {
            self.tell(ExecutorReport::Events(due.into_iter().map(event).collect()));
        }
    }

    /// The nodes of an allocation may join. Those that have joined an earlier manager are away until they are back.
    fn expect(&mut self, id: AllocationId, expected: Expected) {
        let program = self.own.program.clone();
        for (rank, host) in &expected.joined {
            let info = NodeInfo {
                rank: *rank,
                host: host.clone(),
                cores: Idset::new(),
                gpus: Idset::new(),
                program: program.clone(),
                uri: None,
            };
            self.nodes.entry(*rank).or_insert_with(|| Node::new(info, Link::Away));
        }
        self.places.expect(id, expected);
        if let Some(admission) = &self.admission {
            admission.open(id);
        }
    }

    /// Ends the nodes of an allocation.
    fn dismiss(&mut self, id: AllocationId) {
        self.dismissed.insert(id);
        for rank in self.places.joined(id).iter() {
            if let Some(node) = self.nodes.get_mut(&rank) {
                node.end();
            }
        }
        self.note_empty(id);
    }

    /// Says so if no node of a dismissed allocation is connected any more.
    fn note_empty(&self, id: AllocationId) {
        let is_there = |rank: u32| {
            self.nodes.get(&rank).is_some_and(|node| matches!(node.link, Link::Connected { .. }))
        };
        if self.dismissed.contains(&id) && !self.places.joined(id).iter().any(is_there) {
            self.notice(Notice::Empty { id });
        }
    }

    /// Ends what is left of an allocation. Its ranks are free for the nodes of others.
    fn forget(&mut self, id: AllocationId) {
        if let Some(admission) = &self.admission {
            admission.close(id);
        }
        for rank in self.places.joined(id).iter() {
            if let Some(node) = self.nodes.get(&rank) {
                node.end();
                self.orphan(rank);
                self.lose_rest(rank, "its allocation is over");
                self.nodes.remove(&rank);
            }
        }
        self.places.forget(id);
        self.dismissed.remove(&id);
    }

    /// Notes that the parts of jobs on a node are gone.
    fn orphan(&mut self, rank: u32) {
        for id in self.parts.jobs_on(rank) {
            let none = || Orphan { since: Instant::now(), ranks: BTreeSet::new() };
            self.orphans.entry(id).or_insert_with(none).ranks.insert(rank);
        }
    }

    /// Reports the end of the parts of a job whose nodes are gone.
    fn lose_orphans(&mut self, id: JobId) {
        let Some(orphan) = self.orphans.remove(&id) else { return };
        for rank in orphan.ranks {
            let reports = self.parts.lose_part(rank, id);
            self.reports.extend(reports);
            self.start_followers(rank, id);
        }
    }

    fn notice(&self, notice: Notice) {
        if let Some(notify) = &self.notify {
            notify(notice);
        }
    }

    fn tell(&self, report: ExecutorReport) {
        if let Some(to) = &self.report {
            to(report);
        }
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Begin(report) => self.begin(report),
            Request::GoOn => self.go_on(),
            Request::Start(job) => self.start(*job),
            Request::Command(command) => self.command(command),
            Request::Process(plugin, command) => self.process(plugin, command),
            Request::Run(asked) => self.run_command(*asked),
            Request::Notify(notify) => self.notify = Some(notify),
            Request::Expect(id, expected) => self.expect(id, expected),
            Request::Dismiss(id) => self.dismiss(id),
            Request::Forget(id) => self.forget(id),
            Request::Shutdown { done } => {
                self.nodes.values().for_each(Node::end);
                self.shutdown = Some(done);
                self.note_end();
            }
        }
    }

    fn process(&mut self, plugin: PluginKey, mut command: ProcessCommand) {
        if let ProcessCommand::Run { key, .. } | ProcessCommand::Signal { key, .. } = &mut command {
            key.0 = key.0.wrapping_add(self.own.first_process);
        }
        let rank = match &command {
            ProcessCommand::Run { process, .. } => process.rank,
            ProcessCommand::Signal { key, .. } => {
                let found = self.nodes.iter().find(|(_, node)| node.processes.knows(*key));
                found.map(|(rank, _)| *rank)
            }
            ProcessCommand::KillAll => {
                for node in self.nodes.values_mut() {
                    // A node that is away is told when it is back.
                    let is_there = node.is_ready();
                    let lines = node.processes.command(plugin, ProcessCommand::KillAll, is_there);
                    lines.into_iter().for_each(|line| node.send(line));
                }
                return;
            }
        };
        match rank.and_then(|rank| self.nodes.get_mut(&rank)) {
            Some(node) if matches!(node.link, Link::Lost) => {
                refuse(command, &format!("rank {} ({}) is lost", node.info.rank, node.info.host));
            }
            Some(node) => {
                let is_there = node.is_ready();
                let lines = node.processes.command(plugin, command, is_there);
                lines.into_iter().for_each(|line| node.send(line));
            }
            None => refuse(command, "there is no such node"),
        }
    }

    /// Runs a client's command on a node.
    fn run_command(&mut self, mut asked: AskedCommand) {
        let rank = asked.rank;
        let Some(node) = self.nodes.get(&rank) else {
            return asked.refuse(Errno::HOSTUNREACH, format!("there is no rank {rank}"));
        };
        if !node.is_ready() {
            let how = if matches!(node.link, Link::Lost) { "lost" } else { "away" };
            let reason = format!("rank {rank} ({}) is {how}", node.info.host);
            return asked.refuse(Errno::HOSTUNREACH, reason);
        }
        let is_own = node.info.uri.is_none();
        node.name_manager(asked.command.env.values_mut(), &self.own.uri);
        let Some(number) = self.commands.expect(asked) else { return };
        if is_own {
            let (here, there) = tokio::io::duplex(OWN_CHANNEL);
            tokio::spawn(commands::serve(there));
            self.commands.begin(number, Box::pin(here));
        } else {
            node.send(node_line(&ToNode::Command { number }));
        }
    }

    fn begin(&mut self, report: Report) {
        self.report = Some(report);
        for warning in self.nodes.values().filter_map(Node::clock_warning) {
            self.tell(ExecutorReport::Warning(warning));
        }
        if !self.is_restart {
            return;
        }
        // What the manager has stored about them may be out of date.
        for (rank, node) in &self.nodes {
            let change = match node.link {
                Link::Lost => NodeChange::Lost { reason: NOT_BACK.to_owned() },
                Link::Connected { .. } | Link::Away => NodeChange::Back,
            };
            self.tell(ExecutorReport::Node { rank: *rank, change });
        }
    }

    fn go_on(&mut self) {
        for node in self.nodes.values_mut().filter(|node| node.held.is_none()) {
            node.link = Link::Lost;
            node.held = Some(Vec::new());
        }
        self.complete();
    }

    /// Starts a job, or its parts on several nodes.
    fn start(&mut self, job: StartJob) {
        let id = job.id;
        let begin = if job.reattach { Begin::Reattach } else { Begin::Start };
        let ranks: Vec<u32> = job.nodes.iter().map(|node| node.rank).collect();
        self.parts.begin(id, ranks.iter().copied(), begin);
        self.inputs.begin(&job);
        if let [rank] = *ranks {
            return self.start_part(rank, job);
        }
        if limits_others(&job.shell_options) {
            self.timed.insert(id);
        }
        let waits = !job.reattach && empties_shared_file(&job.shell_options);
        let mut followers = Followers { leader: 0, parts: Vec::new(), cancel: None };
        for (place, rank) in ranks.into_iter().enumerate() {
            let seen = match place {
                0 => job.seen,
                // Only the first node's entries are in the job's log, so that those of others may come again: the first
                // exit of all tasks can be among those that the last manager has missed. A repeated exception would end
                // the job again.
                _ => Seen {
                    log_entries: 0,
                    exceptions: if job.seen.exceptions == 0 { 0 } else { ALL },
                    finished: job.seen.finished,
                },
            };
            let part = Some(place);
            let job = StartJob { part, seen, takes_output: false, ..job.clone() };
            match place > 0 && waits {
                true => followers.parts.push((rank, job)),
                false => {
                    followers.leader = if place == 0 { rank } else { followers.leader };
                    self.start_part(rank, job);
                }
            }
        }
        if waits {
            let leader = followers.leader;
            self.followers.insert(id, followers);
            if self.nodes.get(&leader).is_none_or(|node| !node.open.contains_key(&id)) {
                // It is lost, and makes no file.
                self.start_followers(leader, id);
            }
        }
    }

    /// Starts the other parts of a job whose first node has begun, or never will.
    fn start_followers(&mut self, rank: u32, id: JobId) {
        if self.followers.get(&id).is_none_or(|followers| followers.leader != rank) {
            return;
        }
        let Some(Followers { parts, cancel, .. }) = self.followers.remove(&id) else { return };
        for (rank, job) in parts {
            self.start_part(rank, job);
            if let (Some(line), Some(node)) = (&cancel, self.nodes.get_mut(&rank)) {
                if let Some(job) = node.open.get_mut(&id) {
                    job.cancel = Some(line.clone());
                }
                if node.is_ready() {
                    node.send(to_shepherd(line));
                }
            }
        }
    }

    fn start_part(&mut self, rank: u32, mut job: StartJob) {
        let id = job.id;
        if let Some(node) = self.nodes.get(&rank) {
            if self.places.of_rank(rank).is_some() {
                renumber(&mut job.resources, &node.info);
            }
            node.name_manager(job.env.iter_mut().map(|(_, value)| value), &self.own.uri);
        }
        let request = ShepherdRequest::Start(Box::new(job));
        let (ShepherdRequest::Start(job), Ok(line)) = (&request, encode(&request)) else { return };
        let from = self.outputs.received(id, rank);
        match self.nodes.get_mut(&rank) {
            Some(node) if !matches!(node.link, Link::Lost) => {
                node.open.insert(id, OpenJob::new(job, &line));
                if node.is_ready() {
                    node.send(node_line(&ToNode::Follow { id, from }));
                    node.send(to_shepherd(&line));
                }
                // A node that is away gets it when it is back.
            }
            _ => {
                let reports = self.parts.lose_part(rank, id);
                self.reports.extend(reports);
            }
        }
    }

    fn command(&mut self, command: JobCommand) {
        let id = command.id();
        let mut ranks: Vec<u32> = match command {
            JobCommand::Ack { .. } => {
                self.inputs.forget(id);
                self.outputs.forget(id);
                self.exchanges.remove(&id);
                self.timed.remove(&id);
                self.parts.forget(id)
            }
            _ => self.parts.ranks(id).collect(),
        };
        // A job that this manager doesn't start again is still held where the last one has started it.
        let holds = |(rank, node): (&u32, &Node)| node.holds(id).then_some(*rank);
        ranks.extend(self.nodes.iter().filter_map(holds));
        ranks.sort_unstable();
        ranks.dedup();
        if let JobCommand::Tasks { .. } = command {
            return self.ask_for_tasks(id, ranks);
        }
        if let JobCommand::Stdin { rank, data, eof, .. } = &command
            && let Err(error) = self.inputs.add(id, *rank, data, *eof)
        {
            // The tasks get it all the same.
            let text = format!("{id}: its input isn't kept as guest.input: {error}");
            self.tell(ExecutorReport::Warning(text));
        }
        let is_ack = matches!(command, JobCommand::Ack { .. });
        let is_cancel = matches!(command, JobCommand::Cancel { .. });
        let Ok(line) = encode(&ShepherdRequest::Job(command)) else { return };
        let mut full = Vec::new();
        if is_cancel || is_ack {
            self.lose_orphans(id);
        }
        if is_cancel && let Some(followers) = self.followers.get_mut(&id) {
            followers.cancel.get_or_insert_with(|| line.clone());
        }
        for rank in ranks {
            let Some(node) = self.nodes.get_mut(&rank) else { continue };
            if is_ack {
                node.open.remove(&id);
                node.held.iter_mut().for_each(|held| held.retain(|job| job.id != id));
                node.command(node_line(&ToNode::Unfollow { id }));
            } else if is_cancel && let Some(job) = node.open.get_mut(&id) {
                // Sent again with the job's start, or after it.
                job.cancel.get_or_insert_with(|| line.clone());
                if !node.is_ready() {
                    continue;
                }
            }
            if !node.command(to_shepherd(&line)) {
                full.push(rank);
            }
        }
        for rank in full {
            let text = format!(
                "{id}: rank {rank} is away, and what it is asked meanwhile is too much: input or a signal is lost"
            );
            self.tell(ExecutorReport::Warning(text));
        }
    }

    fn ask_for_tasks(&mut self, id: JobId, ranks: Vec<u32>) {
        let ready = |rank: &u32| self.nodes.get(rank).is_some_and(Node::is_ready);
        let waiting: BTreeSet<u32> = ranks.into_iter().filter(ready).collect();
        for rank in &waiting {
            if let Some(node) = self.nodes.get(rank) {
                node.request(&ShepherdRequest::Job(JobCommand::Tasks { id }));
            }
        }
        self.asked.insert(id, Asked { waiting, tasks: Vec::new() });
        self.answer_about_tasks(id);
    }

    /// Answers a question about the processes of a job once all of its nodes have.
    fn answer_about_tasks(&mut self, id: JobId) {
        if self.asked.get(&id).is_some_and(|asked| asked.waiting.is_empty())
            && let Some(Asked { mut tasks, .. }) = self.asked.remove(&id)
        {
            tasks.sort_by_key(|task| task.rank);
            self.flush();
            self.tell(ExecutorReport::Tasks { id, tasks });
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Joined { number, node, ahead, pass, connection, begin } => {
                self.joined(number, (node, ahead), pass, connection, begin);
                self.note_clock(number, ahead);
            }
            Message::Frame { rank, number, frame } => {
                let Some(node) = self.nodes.get_mut(&rank).filter(|node| node.is_connected(number))
                else {
                    return;
                };
                if let Link::Connected { heard, pinged, .. } = &mut node.link {
                    (*heard, *pinged) = (Instant::now(), false);
                }
                match frame {
                    Frame::Shepherd(line) => self.take_line(rank, &line),
                    Frame::Node(line) => self.take_node_line(rank, &line),
                }
            }
            Message::Command { number, channel } => self.commands.begin(number, channel),
            Message::Left { number } => {
                let left = self.nodes.iter().find(|(_, node)| node.is_connected(number));
                if let Some(rank) = left.map(|(rank, _)| *rank) {
                    self.cut(rank);
                }
            }
        }
    }

    fn joined(
        &mut self,
        number: u64,
        (mut info, ahead): (NodeInfo, f64),
        pass: Option<Pass>,
        connection: Connection,
        begin: oneshot::Sender<u32>,
    ) {
        let placed = match &pass {
            _ if info.program != self.own.program => {
                Err(Refusal { reason: other_program(&info.program), is_of_all: true })
            }
            Some(pass) => self.places.give(pass, &info).map_err(Refusal::from),
            None => self.refusal(&info).map_or(Ok((info.rank, true)), Err),
        };
        let (rank, is_known) = match placed {
            Ok(placed) => placed,
            Err(Refusal { reason, is_of_all }) => {
                let refused = node_line(&ToNode::Refused { reason: reason.clone() });
                let _ = connection.outbox.send(refused);
                match pass {
                    Some(Pass { allocation: id, .. }) if is_of_all => {
                        self.notice(Notice::Refused { id, reason });
                    }
                    Some(_) => self.tell(ExecutorReport::Warning(reason)),
                    None => self.tell_joining(Joining::Refused(reason)),
                }
                return;
            }
        };
        info.rank = rank;
        let host = info.host.clone();
        if self.nodes.get(&rank).is_some_and(|node| matches!(node.link, Link::Connected { .. })) {
            // It has noticed the end of its last connection first. It is there, so that an instance that ends waits for it.
            self.disconnect(rank, Link::Away);
        }
        let link = Link::Connected { number, connection, heard: Instant::now(), pinged: false };
        let mut was_lost = false;
        match self.nodes.get_mut(&rank) {
            Some(node) => {
                was_lost = matches!(node.link, Link::Lost);
                node.link = link;
                // Its address may be another one.
                node.info = info;
                node.away = if was_lost { None } else { node.away };
                node.away.get_or_insert_with(Instant::now);
            }
            None => drop(self.nodes.insert(rank, Node::new(info, link))),
        }
        let Some(node) = self.nodes.get(&rank) else { return };
        node.send(node_line(&ToNode::Welcome));
        node.request(&ShepherdRequest::Hello { version: VERSION });
        node.request(&ShepherdRequest::List);
        let _ = begin.send(rank);
        let is_dismissed =
            pass.as_ref().is_some_and(|pass| self.dismissed.contains(&pass.allocation));
        if self.shutdown.is_some() || is_dismissed {
            node.end();
        }
        if was_lost {
            self.tell(ExecutorReport::Node { rank, change: NodeChange::Back });
        }
        if let Some(Pass { allocation: id, ends_at, .. }) = pass.filter(|_| !is_known) {
            let ahead = if ahead.abs() < CLOCKS_DIFFER { 0.0 } else { ahead };
            self.notice(Notice::Joined { id, rank, host, ends_at, ahead });
        }
    }

    /// Why a node of a step can't be one of this instance's.
    fn refusal(&self, info: &NodeInfo) -> Option<Refusal> {
        let rank = info.rank;
        let reason = match self.nodes.get(&rank) {
            _ if rank >= self.size => Some(format!("the instance has no rank {rank}")),
            Some(known) if known.info.host != info.host => {
                let (here, there) = (&known.info.host, &info.host);
                Some(format!("rank {rank} is {here}, not {there}"))
            }
            None => self.other_on(&info.host).map(|other| {
                let host = &info.host;
                format!(
                    "ranks {other} and {rank} are both on {host}: start one process on each node"
                )
            }),
            Some(_) => None,
        };
        reason.map(|reason| Refusal { reason, is_of_all: true })
    }

    /// Notes by how many seconds the clock of the node that has joined on this connection is ahead.
    fn note_clock(&mut self, number: u64, ahead: f64) {
        let Some(node) = self.nodes.values_mut().find(|node| node.is_connected(number)) else {
            return;
        };
        let changed = (ahead - std::mem::replace(&mut node.ahead, ahead)).abs();
        if changed >= CLOCKS_DIFFER
            && let Some(warning) = node.clock_warning()
        {
            self.tell(ExecutorReport::Warning(warning));
        }
    }

    /// The rank of another node on a host.
    fn other_on(&self, host: &str) -> Option<u32> {
        let found = self.nodes.iter().find(|(_, node)| node.info.host == host);
        found.map(|(rank, _)| *rank)
    }

    fn tell_joining(&mut self, joining: Joining) {
        if let Some(to) = &self.joining {
            let _ = to.send(joining);
        }
    }

    fn take_line(&mut self, rank: u32, line: &[u8]) {
        let is_dismissed = |id: AllocationId| self.dismissed.contains(&id);
        if !self.dismissed.is_empty() && self.places.of_rank(rank).is_some_and(is_dismissed) {
            // What becomes of its jobs follows from the end of the allocation.
            return;
        }
        match decode_message(line) {
            Ok(ShepherdMessage::Event(event)) => self.take_event(rank, event),
            Ok(ShepherdMessage::Tasks { id, tasks }) => {
                if let Some(asked) = self.asked.get_mut(&id)
                    && asked.waiting.remove(&rank)
                {
                    asked.tasks.extend(tasks);
                    self.answer_about_tasks(id);
                }
            }
            Ok(ShepherdMessage::Exchange { id, round, values, is_over }) => {
                self.exchange(rank, id, round, Contribution { values, is_over });
            }
            Ok(ShepherdMessage::List { jobs }) => self.take_list(rank, jobs),
            Ok(ShepherdMessage::Refused { reason }) => {
                let text = format!("the shepherd on rank {rank} refuses this manager: {reason}");
                self.tell_joining(Joining::Refused(text.clone()));
                self.tell(ExecutorReport::Warning(text));
            }
            Ok(ShepherdMessage::Hello { .. }) => {}
            Err(error) => {
                let text = format!("rank {rank} sends a line that can't be read: {error}");
                self.tell(ExecutorReport::Warning(text));
                self.cut(rank);
            }
        }
    }

    /// Gathers what the tasks of a node want to tell those of the others, and answers when all have come.
    fn exchange(&mut self, rank: u32, id: JobId, round: u32, own: Contribution) {
        if self.parts.ranks(id).next().is_none() {
            // The shepherd asks again when the job is started again.
            return;
        }
        let exchange = self.exchanges.entry(id).or_default();
        let answer = |values| ShepherdRequest::Job(JobCommand::Exchanged { id, round, values });
        if round <= exchange.number {
            if round == exchange.number
                && !own.is_over
                && let Some(node) = self.nodes.get(&rank)
            {
                node.request(&answer(exchange.last.clone()));
            }
            return;
        }
        let gathered = exchange.gathered.entry(round).or_default();
        gathered.insert(rank, own);
        if self.parts.ranks(id).all(|rank| gathered.contains_key(&rank)) {
            let gathered = std::mem::take(gathered);
            exchange.number = round;
            // A node may have begun the next one already, if the last manager has answered it.
            exchange.gathered = exchange.gathered.split_off(&(round + 1));
            let waits = |(rank, own): (&u32, &Contribution)| (!own.is_over).then_some(*rank);
            let ranks: Vec<u32> = gathered.iter().filter_map(waits).collect();
            exchange.last = gathered.into_values().flat_map(|own| own.values).collect();
            let request = answer(exchange.last.clone());
            for rank in ranks {
                if let Some(node) = self.nodes.get(&rank) {
                    node.request(&request);
                }
            }
        }
    }

    fn take_event(&mut self, rank: u32, event: ExecEvent) {
        if let Some(node) = self.nodes.get_mut(&rank) {
            if let ExecEvent::Released { id } = &event {
                node.open.remove(id);
            } else if let Some(job) = node.open.get_mut(&event.id()) {
                job.count(&event);
            }
        }
        let id = event.id();
        if let ExecEvent::Log { entry, .. } = &event {
            self.note_exit(rank, id, entry);
        }
        let reports = self.parts.report(rank, event);
        self.reports.extend(reports);
        self.start_followers(rank, id);
    }

    /// Tells the other nodes of a job that its first task has exited, if that limits the time of the others.
    fn note_exit(&mut self, rank: u32, id: JobId, entry: &EventEntry) {
        if entry.name != TASK_EXIT || !self.timed.remove(&id) {
            return;
        }
        let field = |key: &str| entry.context.as_ref()?.get(key)?.as_i64();
        let task = field("rank").and_then(|task| u32::try_from(task).ok()).unwrap_or_default();
        let status = field("wait_status").and_then(|status| i32::try_from(status).ok());
        let host = self.nodes.get(&rank).map(|node| node.info.host.clone()).unwrap_or_default();
        let status = status.unwrap_or_default();
        let first = JobCommand::FirstExit { id, rank: task, status, host };
        let Ok(line) = encode(&ShepherdRequest::Job(first)) else { return };
        for (_, node) in self.nodes.iter_mut().filter(|(other, _)| **other != rank) {
            if node.open.contains_key(&id) {
                node.command(to_shepherd(&line));
            }
        }
    }

    /// Handles what a node's shepherd holds: continues the jobs that are open there, and ends those that the node has had
    /// from before it was lost.
    fn take_list(&mut self, rank: u32, jobs: Vec<HeldJob>) {
        let Some(node) = self.nodes.get_mut(&rank) else { return };
        node.away = None;
        if node.held.is_none() {
            // What the manager doesn't start again, it ends.
            node.held = Some(jobs.clone());
            self.tell_joining(Joining::Joined(rank));
            self.complete();
            if self.places.of_rank(rank).is_some() && !jobs.is_empty() {
                // The manager has begun without them.
                self.tell(ExecutorReport::Held(jobs.clone()));
            }
        }
        let Some(node) = self.nodes.get_mut(&rank) else { return };
        node.processes.resume().into_iter().for_each(|line| node.send(line));
        // Jobs whose parts are over are kept until their jobs are, and those of the last manager until this one has started
        // them again.
        let is_kept = |job: &HeldJob| {
            node.holds(job.id) || job.ended && self.parts.ranks(job.id).any(|own| own == rank)
        };
        let listed: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        let others = jobs.into_iter().filter(|job| !node.open.contains_key(&job.id));
        let (kept, strays): (Vec<HeldJob>, Vec<HeldJob>) = others.partition(is_kept);
        for HeldJob { id, ended, .. } in strays {
            let kill = KillPolicy::default();
            if !ended {
                let cancel = JobCommand::Cancel { id, signal: kill.term_signal, kill };
                node.request(&ShepherdRequest::Job(cancel));
            }
            node.request(&ShepherdRequest::Job(JobCommand::Ack { id }));
        }
        if self.shutdown.is_some() {
            // A job that hasn't started there must not start now, after the end.
            return;
        }
        let (mut lines, mut resumed, mut cancels) = (Vec::new(), Vec::new(), Vec::new());
        for (id, job) in &node.open {
            let from = self.outputs.received(*id, rank);
            lines.push(node_line(&ToNode::Follow { id: *id, from }));
            match &job.request {
                // Its shepherd has not read the request.
                Some(line) if !listed.contains(id) => lines.push(to_shepherd(line)),
                _ => resumed.push(Resumed { id: *id, seen: job.seen, started: job.started }),
            }
            cancels.extend(job.cancel.as_deref().map(to_shepherd));
        }
        lines.into_iter().for_each(|line| node.send(line));
        if !resumed.is_empty() {
            // What is left out here counts as acknowledged.
            let seen = Seen { log_entries: ALL, exceptions: ALL, finished: true };
            resumed.extend(kept.into_iter().map(|job| Resumed { id: job.id, seen, started: true }));
            node.request(&ShepherdRequest::Resume { jobs: resumed });
        }
        cancels.into_iter().for_each(|line| node.send(line));
        std::mem::take(&mut node.queued).into_iter().for_each(|line| node.send(line));
    }

    /// Tells who waits for it that all nodes have joined.
    fn complete(&mut self) {
        let size = self.size;
        let joined = self.nodes.range(..size).filter(|(_, node)| node.held.is_some()).count();
        if self.joining.is_none() || u32::try_from(joined) != Ok(size) {
            return;
        }
        let nodes = self.nodes.values().map(|node| node.info.clone()).collect();
        // A job has ended when all of its parts have.
        let mut held: BTreeMap<JobId, HeldJob> = BTreeMap::new();
        for job in self.nodes.values().flat_map(|node| node.held.iter().flatten()) {
            held.entry(job.id).or_insert(*job).ended &= job.ended;
        }
        let held = held.into_values().collect();
        self.tell_joining(Joining::Complete(Complete { nodes, held }));
        self.joining = None;
    }

    fn take_node_line(&mut self, rank: u32, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(FromNode::Output { id, at, text }) => {
                // The output of a job that isn't known any more is complete.
                if self.parts.ranks(id).any(|own| own == rank) {
                    match self.outputs.add(id, rank, at, &text) {
                        Ok(None) => {}
                        Ok(Some(from)) => {
                            if let Some(node) = self.nodes.get(&rank) {
                                node.send(node_line(&ToNode::Follow { id, from }));
                            }
                        }
                        Err(error) => {
                            let text = format!("{id}: output is lost from now on: {error}");
                            self.tell(ExecutorReport::Warning(text));
                        }
                    }
                }
            }
            Ok(FromNode::Process { seq, key, happening }) => {
                if let Some(node) = self.nodes.get_mut(&rank)
                    && let Some(line) = node.processes.take(seq, key, happening)
                {
                    node.send(line);
                }
            }
            Ok(FromNode::Pong) => {}
            Ok(FromNode::Leaving) => {
                if let Some(id) = self.places.of_rank(rank) {
                    self.notice(Notice::Cut { id });
                }
            }
            Ok(
                FromNode::Pass(_)
                | FromNode::Join { .. }
                | FromNode::Client { .. }
                | FromNode::Command { .. },
            )
            | Err(_) => self.cut(rank),
        }
    }

    /// Handles the end of a node's connection.
    fn cut(&mut self, rank: u32) {
        let allocation = self.places.of_rank(rank);
        let is_dismissed = allocation.is_some_and(|id| self.dismissed.contains(&id));
        // A node that has been told that the instance ends, or its allocation, doesn't come back.
        let is_over = self.shutdown.is_some() || is_dismissed;
        self.disconnect(rank, if is_over { Link::Lost } else { Link::Away });
        if let Some(id) = allocation {
            self.notice(Notice::Cut { id });
            self.note_empty(id);
        }
        self.note_end();
    }

    /// Notes that a node has no connection now, only this link.
    fn disconnect(&mut self, rank: u32, link: Link) {
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.link = link;
            // A node that comes and goes without saying what it holds has been away all the time.
            node.away.get_or_insert_with(Instant::now);
        }
        let asked: Vec<JobId> = self.asked.keys().copied().collect();
        for id in asked {
            if let Some(asked) = self.asked.get_mut(&id) {
                asked.waiting.remove(&rank);
            }
            self.answer_about_tasks(id);
        }
    }

    /// Tells who waits for it that all shepherds have ended, as far as their nodes aren't lost. One that is away would
    /// otherwise wait long for a manager that doesn't come.
    fn note_end(&mut self) {
        let is_over = || self.nodes.values().all(|node| matches!(node.link, Link::Lost));
        if self.shutdown.is_some() && is_over() {
            self.shutdown = None;
        }
    }

    /// Leaves out the time in which this manager was stopped, as by a debugger or with its virtual machine: it has heard
    /// nothing, whatever the nodes have said, and no node could come back.
    fn leave_out_own_pause(&mut self, now: Instant) {
        let Some(since) = self.patrolled.replace(now) else { return };
        let paused = (now - since).saturating_sub(2 * PATROL);
        if paused.is_zero() {
            return;
        }
        for node in self.nodes.values_mut() {
            let later = |moment: &mut Instant| *moment = now.min(*moment + paused);
            node.away.iter_mut().for_each(later);
            if let Link::Connected { heard, .. } = &mut node.link {
                later(heard);
            }
        }
    }

    /// Looks for nodes that are silent, and for those that have been away for too long.
    fn patrol(&mut self) {
        let now = Instant::now();
        self.leave_out_own_pause(now);
        let (mut silent, mut lost) = (Vec::new(), Vec::new());
        for (rank, node) in &mut self.nodes {
            let is_late = node.away.is_some_and(|since| now - since > self.grace);
            match &mut node.link {
                Link::Connected { .. } | Link::Away if is_late => lost.push(*rank),
                Link::Connected { heard, .. } if now - *heard > SILENCE => silent.push(*rank),
                Link::Connected { heard, pinged, connection, .. } if now - *heard > PING => {
                    if !std::mem::replace(pinged, true) {
                        let _ = connection.outbox.send(node_line(&ToNode::Ping));
                    }
                }
                Link::Connected { .. } | Link::Away | Link::Lost => {}
            }
        }
        silent.into_iter().for_each(|rank| self.cut(rank));
        self.commands.patrol();
        self.report_released();
        let late = |orphan: &Orphan| orphan.since.elapsed() > ORPHAN;
        let late = self.orphans.iter().filter(|(_, orphan)| late(orphan));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.lose_orphans(id);
        }
        // While the instance starts, no node is lost: the thread that waits for them reports those that are missing.
        if self.report.is_some() && self.shutdown.is_none() {
            lost.into_iter().for_each(|rank| self.lose(rank));
        }
    }

    fn lose(&mut self, rank: u32) {
        let reason = format!("no connection for {} s", self.grace.as_secs());
        // First, so that the jobs end by this reason.
        self.flush();
        let lost = NodeChange::Lost { reason: reason.clone() };
        self.tell(ExecutorReport::Node { rank, change: lost });
        self.lose_rest(rank, &reason);
        let Some(id) = self.places.of_rank(rank) else {
            let led = self.followers.iter().filter(|(_, followers)| followers.leader == rank);
            let led: Vec<JobId> = led.map(|(id, _)| *id).collect();
            led.into_iter().for_each(|id| self.start_followers(rank, id));
            let reports = self.parts.lose(rank);
            return self.reports.extend(reports);
        };
        self.orphan(rank);
        let is_lost =
            |rank: u32| self.nodes.get(&rank).is_some_and(|node| matches!(node.link, Link::Lost));
        if self.places.ranks(id).iter().all(is_lost) {
            self.notice(Notice::Lost { id, reason });
        }
    }

    /// Gives up what a node has besides its parts of jobs.
    fn lose_rest(&mut self, rank: u32, reason: &str) {
        let Some(node) = self.nodes.get_mut(&rank) else { return };
        node.link = Link::Lost;
        node.open.clear();
        node.queued.clear();
        // What it still has when it is back is ended, and not continued.
        node.held = Some(Vec::new());
        node.processes.lose(&format!("rank {rank} ({}) is lost: {reason}", node.info.host));
        self.commands.lose(rank);
    }
}

/// The nodes that are still missing.
pub(super) fn missing(size: u32, joined: &BTreeSet<u32>) -> Idset {
    (0..size).filter(|rank| !joined.contains(rank)).collect()
}
