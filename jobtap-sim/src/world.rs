//! A whole instance on one thread: the manager with its disk, the nodes with their shepherds, and the clients. Each step is
//! decided by one number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::Cred;
use jobtap_core::host::Registry;
use jobtap_core::job::{JobId, State, Uid};
use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use jobtap_daemon::clock::{self, PlayedProcess};
use jobtap_daemon::daemon::stepped::{OnNodes, SteppedManager, SteppedSetup};
use jobtap_daemon::exec::nodes::stepped::{Gathering, Instance, Port};
use jobtap_daemon::exec::nodes::{NodeInfo, NodesExecutor};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use xxhash_rust::xxh3::Xxh3;

use crate::client::{Asked, Client};
use crate::dice::Dice;
use crate::disk::{Disk, DiskStore, Fault};
use crate::local::Socket;
use crate::node::{Done, Node, PROGRAM, host};
use crate::oracle::{Oracle, Violation};
use crate::plugins;
use crate::profile::{Kind, Profile};
use crate::requests;

/// Microseconds of a second.
pub const SECOND: u64 = 1_000_000;

/// When the simulated time begins, in seconds since 1970.
const BEGIN: u64 = 1_800_000_000;

/// How long the nodes may be away.
const GRACE: Duration = Duration::from_secs(30);

/// How long nodes have to come back after a restart of the manager.
const BACK: u64 = 15 * SECOND;

/// The owner of the instance, as whom jobs of all users can run.
pub const OWNER: u32 = 0;

/// All users; the first is the owner.
pub const USERS: [u32; 4] = [OWNER, 1001, 1002, 1003];

/// How many of the last events are kept.
const KEPT: usize = 2000;

/// How many bytes arrive at once when nothing delays them.
const ALL: usize = 1 << 20;

/// The manager's process.
enum Manager {
    Down {
        until: u64,
    },
    Starting {
        since: u64,
        store: Arc<DiskStore>,
        gathering: Gathering,
        runtime: Runtime,
        port: Option<Port>,
    },
    Running {
        store: Arc<DiskStore>,
        manager: Box<SteppedManager>,
        runtime: Runtime,
        port: Option<Port>,
    },
}

/// The instance.
pub struct World {
    /// What the seed has decided at first.
    pub profile: Profile,
    now: u64,
    manager: Manager,
    disk: Disk,
    /// The nodes that the manager knows from earlier.
    known: Vec<NodeInfo>,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    /// What was promised.
    pub oracle: Oracle,
    trace: VecDeque<String>,
    digest: Xxh3,
    directory: tempfile::TempDir,
    dice: Dice,
    /// The way to the shepherd of an instance of one node.
    socket: Socket,
    /// Until which step a sync takes.
    syncs_until: u64,
    /// How many faults there were.
    pub faults: u64,
    /// How many steps were taken.
    pub steps: u64,
}

type Result<T> = std::result::Result<T, Violation>;

fn broken<T>(rule: &'static str, text: impl Into<String>) -> Result<T> {
    Err(Violation { rule, text: text.into() })
}

impl World {
    /// The instance of a seed, with its manager running.
    ///
    /// # Errors
    /// The manager doesn't start.
    pub fn new(profile: Profile) -> Result<Self> {
        clock::play(Duration::from_secs(BEGIN));
        let _last = clock::play_process(PlayedProcess::default());
        let directory = tempfile::tempdir()
            .map_err(|error| Violation { rule: "setup", text: error.to_string() })?;
        let nodes = (0..profile.nodes).map(|rank| Node::new(rank, profile.cores)).collect();
        let mut oracle = Oracle::default();
        oracle.private = profile.private;
        let mut world = Self {
            profile,
            now: 0,
            manager: Manager::Down { until: 0 },
            disk: Disk::default(),
            known: Vec::new(),
            nodes,
            clients: Vec::new(),
            oracle,
            trace: VecDeque::new(),
            digest: Xxh3::new(),
            directory,
            dice: Dice::new(0),
            socket: Socket::default(),
            syncs_until: 0,
            faults: 0,
            steps: 0,
        };
        for _ in 0..200 {
            world.round(SECOND / 100)?;
            if world.is_running() {
                return Ok(world);
            }
        }
        broken("starts", "the manager doesn't start")
    }

    /// A number that stands for all that has happened.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.digest()
    }

    /// The last events.
    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().map(String::as_str)
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let text = format!("{:>12.6} {}", self.now as f64 / SECOND as f64, text());
        self.digest.update(text.as_bytes());
        if self.trace.len() >= KEPT {
            self.trace.pop_front();
        }
        self.trace.push_back(text);
    }

    fn is_running(&self) -> bool {
        matches!(self.manager, Manager::Running { .. })
    }

    /// What the manager's engine shows, if the manager runs.
    fn stepped(&self) -> Option<&SteppedManager> {
        match &self.manager {
            Manager::Running { manager, .. } => Some(manager),
            _ => None,
        }
    }

    /// Takes the step that this number stands for.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn step(&mut self, word: u64) -> Result<()> {
        self.steps += 1;
        self.dice = Dice::new(word);
        match self.dice.below(100) {
            0..16 => self.client_acts()?,
            16..26 => {
                let most = self.amount();
                let which = self.dice.index(self.clients.len());
                self.client_network(which, most)?;
            }
            26..38 => drop(self.step_engine()?),
            38..48 => self.commit()?,
            48..55 => drop(self.step_execution()?),
            55..62 => self.pump(),
            62..74 => {
                let (which, most) = (self.dice.index(self.nodes.len()), self.amount());
                self.node_network(which, most)?;
            }
            74..80 => {
                let which = self.dice.index(self.nodes.len());
                self.node_work(which)?;
            }
            80..86 => {
                let time = match self.dice.below(4) {
                    0 => self.dice.below(2000),
                    1 | 2 => self.dice.below(SECOND / 5),
                    _ => self.dice.below(3 * SECOND),
                };
                let time = self.hurried(time);
                self.pass(time);
            }
            86..95 => {
                let time = self.dice.below(SECOND / 2);
                let time = self.hurried(time);
                self.round(time)?;
            }
            _ => self.fault()?,
        }
        self.look_after_manager()
    }

    /// How much time passes in a step: little beside jobs that end at once.
    fn hurried(&self, time: u64) -> u64 {
        if self.profile.is_hasty { time / 100 } else { time }
    }

    fn amount(&mut self) -> usize {
        match self.dice.below(3) {
            0 => self.dice.index(300),
            _ => ALL,
        }
    }

    /// Lets time pass.
    fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.oracle.passed = self.now as f64 / SECOND as f64;
        let passed = Duration::from_micros(micros);
        clock::play_on(passed, 0);
        if let Manager::Running { runtime, .. } | Manager::Starting { runtime, .. } = &self.manager
        {
            runtime.block_on(tokio::time::advance(passed));
        }
    }

    /// Lets the asynchronous work of the manager go on.
    fn pump(&mut self) {
        if let Manager::Running { runtime, .. } | Manager::Starting { runtime, .. } = &self.manager
        {
            let turns = 1 + self.dice.below(20);
            runtime.block_on(async {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    fn step_engine(&mut self) -> Result<bool> {
        let commits = self.dice.hits(1, 3) && !self.is_syncing();
        let Manager::Running { manager, .. } = &mut self.manager else { return Ok(false) };
        let any = manager.step_engine(commits);
        self.observe()?;
        Ok(any)
    }

    fn step_execution(&mut self) -> Result<bool> {
        let Manager::Running { manager, runtime, .. } = &mut self.manager else { return Ok(false) };
        let _within = runtime.enter();
        Ok(manager.step_execution())
    }

    /// Commits what waits, during which the disk may fail or the manager may be killed.
    fn commit(&mut self) -> Result<()> {
        let (crash, disk) = (self.profile.has(Kind::Crash), self.profile.has(Kind::Disk));
        let fault = match self.dice.below(40) {
            0 if crash => Fault::CrashBefore,
            1 if crash => Fault::CrashWithin,
            2 if crash => Fault::CrashUnsynced,
            3 if crash => Fault::CrashAfter,
            4 if disk => Fault::Full,
            5 if disk => Fault::WriteFails,
            6 if disk => Fault::SyncFails,
            _ => Fault::None,
        };
        let part = self.dice.roll();
        if fault != Fault::None {
            self.disk.plan(fault, part);
        }
        let any = self.step_committer()?;
        if any && fault != Fault::None {
            self.faults += 1;
            self.note(|| format!("commit: {fault:?}"));
        }
        self.disk.plan(Fault::None, 0);
        Ok(())
    }

    /// Whether the committing thread waits for the disk.
    fn is_syncing(&self) -> bool {
        self.steps < self.syncs_until
    }

    fn step_committer(&mut self) -> Result<bool> {
        if self.is_syncing() {
            return Ok(false);
        }
        let Manager::Running { manager, runtime, .. } = &mut self.manager else { return Ok(false) };
        let _within = runtime.enter();
        let any = manager.step_committer();
        self.observe()?;
        Ok(any)
    }

    /// Looks at what has become durable.
    fn observe(&mut self) -> Result<()> {
        let touched = self.disk.take_touched();
        let store = match &self.manager {
            Manager::Running { store, .. } | Manager::Starting { store, .. } => Arc::clone(store),
            Manager::Down { .. } => return Ok(()),
        };
        if !touched.is_empty() {
            self.oracle.committed(&store, &touched)?;
            let states = touched.iter().map(|id| {
                let truth = self.oracle.jobs().get(id);
                let last = truth.and_then(|truth| truth.events.last());
                format!("{}={}", JobId::new(*id), last.map_or("gone", |event| &event.name))
            });
            let states = states.collect::<Vec<_>>().join(" ");
            self.note(|| format!("durable: {states}"));
            for node in &self.nodes {
                let running: Vec<JobId> = node.shepherd.running().map(|(id, _)| id).collect();
                self.oracle.running(node.rank, &running)?;
            }
        }
        Ok(())
    }

    /// Kills the manager.
    fn kill(&mut self, until: u64) {
        let old = std::mem::replace(&mut self.manager, Manager::Down { until });
        match old {
            Manager::Down { .. } => {}
            Manager::Starting { runtime, gathering, store, .. } => {
                drop((gathering, store));
                drop(runtime);
            }
            Manager::Running { manager, runtime, store, .. } => {
                let within = runtime.enter();
                drop(manager);
                drop(within);
                drop((runtime, store));
            }
        }
        if self.profile.is_local() {
            self.socket = Socket::default();
            self.nodes.iter_mut().for_each(|node| node.shepherd.disconnect());
        }
        // The next one is another process.
        let _last = clock::play_process(PlayedProcess::default());
    }

    /// Ends the manager in order.
    fn stop(&mut self, until: u64) -> Result<()> {
        let down = Manager::Down { until };
        match std::mem::replace(&mut self.manager, down) {
            Manager::Running { store, manager, runtime, port } => {
                let within = runtime.enter();
                manager.stop();
                drop(within);
                let touched = self.disk.take_touched();
                self.oracle.committed(&store, &touched)?;
                drop((runtime, store, port));
            }
            other => self.manager = other,
        }
        self.kill(until);
        Ok(())
    }

    /// Buries a manager that has died or can't go on, and starts the next one when it is time.
    fn look_after_manager(&mut self) -> Result<()> {
        let is_down = matches!(self.manager, Manager::Down { .. });
        if !is_down && self.disk.has_crashed() {
            // Until it died, its other threads went on.
            self.pump();
            let until = self.now + self.dice.below(5 * SECOND);
            if self.profile.has(Kind::Power) && self.dice.hits(1, 2) {
                self.disk.lose_power(&mut self.dice);
                self.own_host_lost();
                self.note(|| "the host of the manager has no power".to_owned());
            }
            self.note(|| "the manager is dead".to_owned());
            self.kill(until);
        } else if let Some(reason) = self.stepped().and_then(SteppedManager::failure) {
            if !reason.starts_with("the store failed") {
                return broken("fails", reason);
            }
            let until = self.now + self.dice.below(5 * SECOND);
            self.note(|| format!("the manager ends: {reason}"));
            self.kill(until);
        }
        match &self.manager {
            Manager::Down { until } if *until <= self.now => self.begin(),
            Manager::Starting { .. } => self.complete(),
            _ => Ok(()),
        }
    }

    /// Starts a manager.
    fn begin(&mut self) -> Result<()> {
        let store = self
            .disk
            .open()
            .map_err(|error| Violation { rule: "readable", text: error.to_string() })?;
        self.oracle.reopened(&store)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|error| Violation { rule: "setup", text: error.to_string() })?;
        if self.profile.is_local() {
            return self.start(store, runtime, None);
        }
        let within = runtime.enter();
        let instance = Instance {
            size: self.profile.nodes,
            grace: GRACE,
            known: &self.known,
            state_dir: self.directory.path(),
            uri: "local:///sim/local-0".to_owned(),
            program: PROGRAM.to_owned(),
        };
        let (gathering, port) = Gathering::begin(instance)
            .map_err(|error| Violation { rule: "setup", text: error.to_string() })?;
        drop(within);
        self.note(|| "a manager starts".to_owned());
        self.manager =
            Manager::Starting { since: self.now, store, gathering, runtime, port: Some(port) };
        Ok(())
    }

    /// Goes on with a manager whose nodes have joined.
    fn complete(&mut self) -> Result<()> {
        let down = Manager::Down { until: self.now };
        let starting = std::mem::replace(&mut self.manager, down);
        let Manager::Starting { since, store, gathering, runtime, port } = starting else {
            self.manager = starting;
            return Ok(());
        };
        if self.now > since + BACK && !self.known.is_empty() {
            gathering.go_on();
        }
        let (executor, nodes) = match gathering.complete() {
            Err(error) => return broken("starts", error.to_string()),
            Ok(Err(gathering)) => {
                self.manager = Manager::Starting { since, store, gathering, runtime, port };
                return Ok(());
            }
            Ok(Ok(complete)) => complete,
        };
        self.known = nodes;
        self.start(store, runtime, port.map(|port| (port, executor)))
    }

    /// Starts a manager whose nodes have joined, or that has one.
    fn start(
        &mut self,
        store: Arc<DiskStore>,
        runtime: Runtime,
        nodes: Option<(Port, NodesExecutor)>,
    ) -> Result<()> {
        let setup = SteppedSetup {
            owner: Uid::new(OWNER),
            config: self.profile.config(),
            resources: self.resources()?,
            registry: self.registry()?,
            store: Arc::<DiskStore>::clone(&store),
            state_dir: self.directory.path().to_owned(),
            uri: "local:///sim/local-0".to_owned(),
            on_nodes: nodes
                .as_ref()
                .map(|(_, executor)| -> OnNodes { Box::new(executor.plugin_processes()) }),
        };
        let within = runtime.enter();
        let (port, started) = match (nodes, self.nodes.first_mut()) {
            (Some((port, executor)), _) => {
                let started = SteppedManager::start(setup, |report| {
                    executor.begin(report);
                    Box::new(executor)
                });
                (Some(port), started)
            }
            (None, Some(node)) => {
                let (mut socket, held) =
                    Socket::connect(&mut node.shepherd, self.now, &mut self.dice);
                let started = SteppedManager::start(setup, |report| socket.executor(held, report));
                self.socket = socket;
                (None, started)
            }
            (None, None) => return broken("setup", "no nodes"),
        };
        drop(within);
        let manager = match started {
            Ok(manager) => Box::new(manager),
            Err(error) => return broken("starts", error.to_string()),
        };
        let stats = manager.engine().job_stats();
        let restored = stats.pointer("/job_states/total").and_then(Value::as_u64);
        self.note(|| format!("the manager is ready with {restored:?} jobs"));
        let durable = self.oracle.jobs().len() as u64;
        self.manager = Manager::Running { store, manager, runtime, port };
        // Elements of arrays may become jobs at once.
        if restored.is_none_or(|restored| restored < durable) {
            return broken("conserved", format!("{durable} jobs are durable, and {stats}"));
        }
        self.observe()
    }

    fn resources(&self) -> Result<ResourceSet> {
        let mut hosts = Hostlist::new();
        for rank in 0..self.profile.nodes {
            if let Err(error) = hosts.push(&host(rank)) {
                return broken("setup", error.to_string());
            }
        }
        let cores = (0..self.profile.cores).collect::<Idset>();
        Ok(ResourceSet::uniform(0, &hosts, Children::new(cores, Idset::new())))
    }

    fn registry(&self) -> Result<Registry> {
        plugins::registry(&self.profile)
            .map_err(|error| Violation { rule: "setup", text: error.to_string() })
    }

    fn client_network(&mut self, which: usize, most: usize) -> Result<bool> {
        let Some(client) = self.clients.get_mut(which) else { return Ok(false) };
        let Some((any, told)) = client.network(most) else {
            self.clients.remove(which);
            return Ok(true);
        };
        for told in told {
            self.note(|| match &told.result {
                Ok(value) => format!("{} {:?}: {value}", told.user, told.asked),
                Err(error) => format!("{} {:?}: {error}", told.user, told.asked),
            });
            self.oracle.told(&told)?;
        }
        Ok(any)
    }

    fn node_network(&mut self, which: usize, most: usize) -> Result<bool> {
        if self.profile.is_local() {
            return Ok(self.local_network(most));
        }
        let shown = self.time_on(which);
        let Some(node) = self.nodes.get_mut(which) else { return Ok(false) };
        let mut any = false;
        if let Manager::Running { runtime, port: Some(port), .. }
        | Manager::Starting { runtime, port: Some(port), .. } = &self.manager
        {
            let _within = runtime.enter();
            any |= node.connect(port, self.now, shown);
        }
        let done = self.on_node(which, |node, now, dice| node.network(most, now, dice));
        self.judge(done, any)
    }

    fn local_network(&mut self, most: usize) -> bool {
        let Manager::Running { runtime, .. } = &self.manager else { return false };
        let Some(node) = self.nodes.first_mut() else { return false };
        let _within = runtime.enter();
        self.socket.deliver(&mut node.shepherd, most, self.now, &mut self.dice)
    }

    fn node_work(&mut self, which: usize) -> Result<bool> {
        let done = self.on_node(which, Node::work);
        self.judge(done, false)
    }

    /// What the clock of a node shows, in seconds since 1970.
    fn time_on(&self, which: usize) -> f64 {
        let ahead = self.nodes.get(which).map_or(0, |node| node.ahead);
        (BEGIN * SECOND + self.now).saturating_add_signed(ahead) as f64 / SECOND as f64
    }

    /// Does something on a node, whose clock is the one that shows there.
    fn on_node(
        &mut self,
        which: usize,
        act: impl FnOnce(&mut Node, u64, &mut Dice) -> Done,
    ) -> Done {
        let Some(node) = self.nodes.get_mut(which) else { return Done::default() };
        let of_manager = clock::play_process(std::mem::take(&mut node.clock));
        clock::play_on(Duration::ZERO, node.ahead);
        let done = act(node, self.now, &mut self.dice);
        clock::play_on(Duration::ZERO, -node.ahead);
        node.clock = clock::play_process(of_manager);
        done
    }

    fn judge(&mut self, done: Done, any: bool) -> Result<bool> {
        if let Some(reason) = done.refused {
            return broken("nodes", reason);
        }
        for (rank, job, what) in &done.processes {
            self.note(|| format!("rank {rank} runs {what} of {}", JobId::new(*job)));
            self.oracle.process(*rank, *job)?;
        }
        for started in &done.started {
            self.note(|| format!("rank {} starts {}", started.rank, started.job.id));
            self.oracle.started(started)?;
            let running = self.nodes.get(started.rank as usize).into_iter();
            let running = running.flat_map(|node| node.shepherd.running().map(|(id, _)| id));
            let others: Vec<JobId> = running.filter(|id| *id != started.job.id).collect();
            self.oracle.beside(started, &others)?;
        }
        Ok(any || done.any)
    }

    /// Lets everything be done that can be done, in time that passes.
    fn round(&mut self, time: u64) -> Result<()> {
        self.pass(time);
        for _ in 0..200 {
            let mut any = false;
            self.pump();
            any |= self.step_engine()?;
            any |= self.step_committer()?;
            any |= self.step_execution()?;
            for which in 0..self.nodes.len() {
                any |= self.node_network(which, ALL)?;
                any |= self.node_work(which)?;
            }
            let mut which = 0;
            while which < self.clients.len() {
                let count = self.clients.len();
                any |= self.client_network(which, ALL)?;
                which += usize::from(self.clients.len() == count);
            }
            self.look_after_manager()?;
            if !any {
                break;
            }
        }
        Ok(())
    }

    fn connect(&mut self, user: u32) -> bool {
        let Manager::Running { manager, runtime, .. } = &self.manager else { return false };
        let _within = runtime.enter();
        let connected = manager.connect(Uid::new(user));
        let is_connected = connected.is_ok();
        self.clients.extend(connected.ok().map(|stream| Client::new(user, stream)));
        is_connected
    }

    fn client_acts(&mut self) -> Result<()> {
        if self.clients.len() < 2 || self.dice.hits(1, 12) {
            let user = self.dice.one_of(&USERS).copied().unwrap_or(OWNER);
            self.connect(user);
        }
        if self.profile.has(Kind::Clients) && self.dice.hits(1, 25) && !self.clients.is_empty() {
            let which = self.dice.index(self.clients.len());
            let client = self.clients.remove(which);
            self.faults += 1;
            self.note(|| {
                format!("a client of {} leaves, with {} requests", client.user, client.open())
            });
        }
        let which = self.dice.index(self.clients.len());
        let Some(client) = self.clients.get_mut(which) else { return Ok(()) };
        let sent = requests::any(client, &self.profile, &self.oracle, &mut self.dice);
        if let Asked::Purge { id } = sent {
            self.oracle.purged(id);
        }
        let user = client.user;
        self.note(|| format!("{user} asks {sent:?}"));
        Ok(())
    }

    fn fault(&mut self) -> Result<()> {
        let Some(kind) = self.dice.one_of(&self.profile.kinds).copied() else { return Ok(()) };
        self.faults += 1;
        let which = self.dice.index(self.nodes.len());
        let now = self.now;
        match kind {
            Kind::Crash if self.dice.hits(1, 3) => {
                self.note(|| "the manager is stopped".to_owned());
                let until = now + self.dice.below(3 * SECOND);
                self.stop(until)?;
            }
            Kind::Crash => {
                let until = now + self.dice.below(3 * SECOND);
                self.note(|| "the manager is killed".to_owned());
                self.kill(until);
            }
            Kind::Power => {
                let until = now + self.dice.below(20 * SECOND);
                self.note(|| "the manager's host goes down".to_owned());
                self.kill(until);
                self.disk.lose_power(&mut self.dice);
                self.own_host_lost();
            }
            Kind::Disk if self.dice.hits(1, 2) => {
                let steps = 3 + self.dice.below(25);
                self.syncs_until = self.steps + steps;
                self.note(|| format!("a sync takes {steps} steps"));
            }
            Kind::Disk => {
                let full = self.dice.hits(1, 2);
                self.note(|| format!("the disk is full: {full}"));
                self.disk.fill(full);
            }
            Kind::Network | Kind::Nodes if self.profile.is_local() => {}
            Kind::Network => {
                let how = self.dice.below(3);
                // Mostly one of whose words some are lost by that.
                let speaks = |node: &Node| node.line.as_ref().is_some_and(|line| line.unsent() > 0);
                let speaking = self.nodes.iter().position(speaks).filter(|_| self.dice.hits(2, 3));
                let which = speaking.unwrap_or(which);
                let Some(node) = self.nodes.get_mut(which) else { return Ok(()) };
                match (how, &mut node.line) {
                    (0, _) => node.cut(now),
                    (_, Some(line)) => line.stalled = !line.stalled,
                    _ => {}
                }
                self.note(|| format!("the channel to rank {which}: {how}"));
            }
            Kind::Nodes => {
                let Some(node) = self.nodes.get_mut(which) else { return Ok(()) };
                match node.is_up {
                    true => node.go_down(now),
                    false => node.is_up = true,
                }
                let is_up = node.is_up;
                self.note(|| format!("rank {which} is up: {is_up}"));
            }
            Kind::Clocks => self.clock_fault(which),
            Kind::Clients => {
                if !self.clients.is_empty() {
                    let which = self.dice.index(self.clients.len());
                    self.clients.remove(which);
                }
            }
            Kind::Plugins => {}
            Kind::Reload => {
                if self.connect(OWNER)
                    && let Some(client) = self.clients.last_mut()
                {
                    let sent = requests::reload(client, &mut self.dice);
                    self.note(|| format!("{sent:?}"));
                }
            }
            Kind::Processes => {
                let Some(node) = self.nodes.get_mut(which) else { return Ok(()) };
                node.shepherd.disk_fails = !node.shepherd.disk_fails;
                node.shepherd.unstick(now);
            }
        }
        Ok(())
    }

    /// The manager's host has lost its power, and with it the processes of its jobs.
    fn own_host_lost(&mut self) {
        if self.profile.is_local() {
            self.nodes.iter_mut().for_each(|node| node.shepherd.reboot());
        }
    }

    fn clock_fault(&mut self, which: usize) {
        match self.dice.below(3) {
            0 => {
                let by = i64::try_from(self.dice.below(7200 * SECOND)).unwrap_or(0);
                let by = if self.dice.hits(1, 2) { by } else { -by };
                clock::play_on(Duration::ZERO, by);
                self.note(|| format!("the clock is set by {by}"));
            }
            1 => {
                let slept = self.dice.below(600 * SECOND);
                self.pass(slept);
                self.note(|| format!("everything sleeps for {slept}"));
            }
            _ => {
                let ahead = i64::try_from(self.dice.below(60 * SECOND)).unwrap_or(0) - 30_000_000;
                if let Some(node) = self.nodes.get_mut(which) {
                    node.ahead = ahead;
                }
                self.note(|| format!("the clock of rank {which} is ahead by {ahead}"));
            }
        }
    }

    /// Stops all faults, and checks that every job ends or says on what it waits; then ends all jobs, and checks that
    /// nothing is left of them.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn end(&mut self) -> Result<()> {
        self.dice = Dice::new(0);
        self.disk.fill(false);
        self.syncs_until = 0;
        for node in &mut self.nodes {
            node.is_up |= !self.profile.stay_down;
            node.shepherd.disk_fails = false;
            node.shepherd.is_calm = true;
            node.shepherd.unstick(self.now);
            if let Some(line) = &mut node.line {
                line.stalled = false;
            }
        }
        self.note(|| "the faults stop".to_owned());
        self.until_running()?;
        self.clients.clear();
        self.ask(&[
            ("job-manager.queue-start", json!({ "all": true, "start": true })),
            ("job-manager.queue-enable", json!({ "all": true, "enable": true })),
        ])?;
        for _ in 0..40 {
            self.undrain()?;
            self.round(2 * SECOND)?;
            if self.oracle.active().next().is_none() {
                break;
            }
        }
        self.check_waiting()?;
        self.check_limits()?;
        self.nodes.iter_mut().for_each(|node| node.is_up = true);
        let states = u64::MAX;
        let all = json!({
            "dry_run": false, "userid": -1, "states": states & 0x7f, "type": "cancel", "severity": 0,
        });
        for attempt in 0..4 {
            self.ask(&[("job-manager.raiseall", all.clone())])?;
            if attempt > 0 {
                self.ask(&[("job-manager.jobtap", json!({ "remove": "all" }))])?;
            }
            for _ in 0..30 {
                self.round(SECOND)?;
                if self.oracle.active().next().is_none() {
                    break;
                }
            }
            let left = self.nodes.iter().find_map(|node| node.shepherd.running().next());
            if let Some((id, _)) = left {
                return broken("liveness", format!("{id} is canceled and runs on"));
            }
        }
        self.round(5 * SECOND)?;
        self.round(5 * SECOND)?;
        self.check_over()
    }

    fn until_running(&mut self) -> Result<()> {
        for _ in 0..400 {
            self.round(SECOND / 5)?;
            let joined = self.nodes.iter().all(|node| node.line.is_some() || !node.is_up);
            if self.is_running() && (joined || self.profile.is_local()) {
                return Ok(());
            }
        }
        broken("liveness", "the manager doesn't start, or a node doesn't join")
    }

    /// Sends requests of the owner, and waits for the responses.
    fn ask(&mut self, requests: &[(&'static str, Value)]) -> Result<()> {
        if !self.connect(OWNER) {
            return broken("liveness", "the owner can't connect");
        }
        if let Some(client) = self.clients.last_mut() {
            for (topic, payload) in requests {
                client.send(Asked::Other(topic), topic, payload, None);
            }
        }
        for _ in 0..20 {
            self.round(SECOND / 10)?;
            if self.clients.last().is_some_and(|client| client.open() == 0) {
                self.clients.pop();
                return Ok(());
            }
        }
        broken(
            "liveness",
            format!("no response to {:?}", requests.iter().map(|r| r.0).collect::<Vec<_>>()),
        )
    }

    fn undrain(&mut self) -> Result<()> {
        let Some(manager) = self.stepped() else { return Ok(()) };
        let status = manager.engine().resource_status();
        let drained = status.get("drain").and_then(Value::as_object);
        let ranks: Vec<String> =
            drained.into_iter().flatten().map(|(ranks, _)| ranks.clone()).collect();
        for targets in ranks {
            self.ask(&[("resource.undrain", json!({ "targets": targets }))])?;
        }
        Ok(())
    }

    /// Checks that each job that has not ended says why.
    fn check_waiting(&mut self) -> Result<()> {
        let owner = Cred { userid: Uid::new(OWNER), owner: true };
        let Some(manager) = self.stepped() else { return broken("liveness", "no manager") };
        for (id, truth) in self.oracle.active() {
            let (ranks, id) = (self.oracle.ranks_of(id), JobId::new(id));
            let why = manager.engine().why(id, owner);
            let reasons = why.as_ref().ok().and_then(|why| why.get("reasons")?.as_array());
            if reasons.is_none_or(Vec::is_empty) && truth.state != Some(State::Run) {
                return broken(
                    "why",
                    format!("{id} waits for nothing: {why:?}\n{}", truth.shown()),
                );
            }
            let has = |name: &str| truth.events.iter().any(|event| &*event.name == name);
            // They have been away for longer than the grace time.
            let lost = self.nodes.iter().find(|node| !node.is_up && ranks.contains(node.rank));
            if let Some(node) = lost
                && truth.state == Some(State::Run)
                && has("start")
            {
                let text = format!("{id} runs without rank {}\n{}", node.rank, truth.shown());
                return broken("liveness", text);
            }
            let count =
                |name: &str| truth.events.iter().filter(|event| &*event.name == name).count();
            let is_prepared = count("prolog-start") == count("prolog-finish");
            if truth.state == Some(State::Run) && is_prepared && !has("start") {
                return broken("liveness", format!("{id} isn't started\n{}", truth.shown()));
            }
            let runs =
                self.nodes.iter().any(|node| node.shepherd.running().any(|(own, _)| own == id));
            let open =
                |kind: &str| count(&format!("{kind}-start")) - count(&format!("{kind}-finish"));
            if truth.state == Some(State::Cleanup) && runs {
                return broken("liveness", format!("{id} ends and runs on\n{}", truth.shown()));
            }
            if truth.state == Some(State::Cleanup) && open("prolog") + open("epilog") == 0 {
                return broken("liveness", format!("nothing keeps {id}\n{}", truth.shown()));
            }
            if truth.state == Some(State::Run) && has("start") && !runs {
                return broken("liveness", format!("{id} runs nowhere\n{}", truth.shown()));
            }
        }
        Ok(())
    }

    /// Checks that no job runs longer than it may.
    fn check_limits(&mut self) -> Result<()> {
        let now = clock::now().as_secs();
        let running = self.nodes.iter().flat_map(|node| node.shepherd.running());
        let running: Vec<u64> = running.map(|(id, _)| id.as_u64()).collect();
        running.into_iter().try_for_each(|id| self.oracle.in_time(id, now))
    }

    /// Checks that no job is left, and that nothing of the jobs is.
    fn check_over(&mut self) -> Result<()> {
        if let Some((id, truth)) = self.oracle.active().next() {
            let text = format!("{} doesn't end\n{}", JobId::new(id), truth.shown());
            return broken("liveness", text);
        }
        for node in &self.nodes {
            if !node.shepherd.is_empty() {
                let text = format!("rank {} still has {}", node.rank, node.shepherd.shown());
                return broken("liveness", text);
            }
        }
        let Some(manager) = self.stepped() else { return broken("liveness", "no manager") };
        for id in &self.oracle.arrays {
            let array = manager.engine().array(JobId::new(*id));
            let over = array.as_ref().ok().and_then(|array| array.get("over")?.as_bool());
            if over != Some(true) {
                return broken("liveness", format!("array {}: {array:?}", JobId::new(*id)));
            }
        }
        let free = manager.engine().free_resources();
        let all = (self.profile.nodes * self.profile.cores) as usize;
        if free.ncores() != all && self.undrained() {
            return broken("conserved", format!("{} of {all} cores are free", free.ncores()));
        }
        let stats = manager.engine().job_stats();
        let active = stats.pointer("/job_states/inactive").and_then(Value::as_u64);
        if active != Some(self.oracle.jobs().len() as u64) {
            let text = format!("{} jobs are durable, and {stats}", self.oracle.jobs().len());
            return broken("conserved", text);
        }
        Ok(())
    }

    fn undrained(&self) -> bool {
        let status = self.stepped().map(|manager| manager.engine().resource_status());
        let drained = status.as_ref().and_then(|status| status.get("drain")?.as_object());
        drained.is_none_or(serde_json::Map::is_empty)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.clients.clear();
        self.kill(0);
    }
}
