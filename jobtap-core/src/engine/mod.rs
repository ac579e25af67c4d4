//! The engine: the life cycle of jobs, pure. An [`Input`] and the time go in, [`Effects`] come out.
//!
//! No I/O, no clock, no threads. Work goes on an explicit stack (`work.rs`), depth first, so that
//! what a plugin asks for happens before the next plugin is called, and a chain of any length of
//! jobs that wait for each other takes no machine stack.
//!
//! | file | what it holds |
//! |---|---|
//! | `api` | inputs and effects |
//! | `record`, `times` | a job, and the state machine of RFC 21 |
//! | `jobs`, `summary` | all jobs; those that are over, folded |
//! | `work` | the stack of work, events and their order |
//! | `notices`, `frames` | a topic through the stack of plugins: the short way, and step by step |
//! | `callback` | one callback |
//! | `host` | the [`Host`](crate::host::Host) that a handler sees |
//! | `commands`, `working` | what handlers asked for, done; asynchronous handlers at work |
//! | `held` | what holds a job on behalf of plugins |
//! | `actions` | what the manager does in each state |
//! | `submit`, `requests` | what clients ask for |
//! | `queues`, `lanes` | queues, and the jobs that wait for resources in them |
//! | `alloc`, `exec`, `exec_api`, `exec_config`, `late_start`, `simulated` | resources and execution |
//! | `estimates` | when jobs will probably start |
//! | `kept` | resources that plugins keep after the end of their jobs |
//! | `nodes`, `node_requests`, `maintenance` | nodes: drained, lost, reserved |
//! | `waits` | requests that wait for the end of jobs |
//! | `purge` | inactive jobs that are forgotten |
//! | `updates` | changes of a jobspec that users ask for |
//! | `services` | what clients ask of plugins |
//! | `faulted` | plugins that keep panicking |
//! | `plugins`, `plugin_requests` | loading; what administrators ask |
//! | `arrivals` | what loading and removing means for the jobs that are there |
//! | `restart` | from the store back to where it was |
//! | `listing`, `queue_tally`, `why` | what clients read; jobs by queue; what a job waits for |

mod actions;
mod alloc;
mod annotations;
mod api;
mod arrivals;
mod callback;
mod commands;
mod estimates;
mod events;
mod exec;
mod exec_api;
mod exec_config;
mod faulted;
mod frames;
mod held;
mod host;
mod ingest;
mod jobs;
mod kept;
mod lanes;
mod late_start;
mod listing;
mod maintenance;
mod node_requests;
mod nodes;
mod notices;
mod plugin_requests;
mod plugins;
mod purge;
mod queue_tally;
mod queues;
mod record;
mod requests;
mod restart;
mod selection;
mod services;
mod simulated;
mod submit;
mod summary;
mod timers;
mod times;
mod updates;
mod waits;
mod why;
mod why_resources;
mod work;
mod working;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

pub use api::*;
pub use commands::INSTANCE_DATA;
pub use kept::KEPT;
pub use late_start::end_of_started;
pub use listing::{JobBrief, Listed, Listing};
pub use nodes::RESOURCE_LOG;
pub use plugins::PluginStatus;
pub use restart::RestoreError;

use crate::host::{PluginKey, Registry, RemoteSink, Ticks};
use crate::job::{IdGenerator, JobId, Timestamp, Uid};
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::sched::Pool;
use crate::topic::TopicId;
use exec_config::ExecConfig;
use frames::Frame;
use ingest::Ingest;
use jobs::Jobs;
use lanes::Lanes;
use notices::{Cause, Notice};
use plugins::Plugins;
use timers::Timers;
use work::Work;

/// What an engine is made of.
pub struct Setup {
    /// The user who owns the instance.
    pub owner: Uid,
    /// All resources that jobs can have.
    pub resources: ResourceSet,
    /// The instance's configuration, an object.
    pub config: Value,
    /// The linked plugins.
    pub registry: Registry,
    /// The way back from work outside the engine's thread.
    pub remote: Arc<dyn RemoteSink>,
    /// Clocks for what handlers cost.
    pub ticks: Ticks,
}

/// Why an engine can't start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub(crate) String);

/// The job manager's core.
pub struct Engine {
    owner: Uid,
    config: Value,
    now: Timestamp,
    started_at: Timestamp,
    /// Time of the newest event; the next one's is later, so that events have one order.
    last_event: Timestamp,
    ids: IdGenerator,
    max_jobid: Option<JobId>,
    jobs: Jobs,
    active: BTreeSet<JobId>,
    plugins: Plugins,
    work: Vec<Work>,
    /// Submissions whose `job.validate` waits for an asynchronous handler.
    suspended: FxHashMap<JobId, Frame>,
    /// Requests that a plugin's service will answer later.
    services: FxHashMap<ReplyTo, PluginKey>,
    /// Plugins' data on the instance, by plugin.
    instance_data: FxHashMap<String, Value>,
    /// Answers owed to submitters.
    submitters: FxHashMap<JobId, ReplyTo>,
    ingest: Ingest,
    queues: Queues,
    lanes: Lanes,
    exec: ExecConfig,
    pool: Pool,
    nodes: nodes::Nodes,
    /// The jobs that hold resources of the pool.
    holding: BTreeSet<JobId>,
    kept: kept::AllKept,
    estimates: estimates::Estimates,
    timers: Timers,
    effects: Effects,
    /// Jobs that something happened to since the last input.
    visited: Vec<JobId>,
    tally: listing::Tally,
    queue_tallies: queue_tally::QueueTallies,
    waits: waits::Waits,
    inactive: purge::Inactive,
    /// Plugins may not act on jobs before all jobs are restored.
    running: bool,
}

impl Engine {
    /// A new engine with its plugins loaded: those that load by themselves, then what
    /// `[job-manager] plugins` of the configuration says.
    ///
    /// # Errors
    /// When a plugin can't be loaded; the text names it.
    pub fn new(now: Timestamp, setup: Setup) -> Result<Self, StartError> {
        let queues = Queues::read(&setup.config).map_err(|error| StartError(error.to_string()))?;
        let lanes = Lanes::new(&queues, &setup.registry).map_err(StartError)?;
        queues::stop_at_restart(&setup.config)?;
        let exec = ExecConfig::read(&setup.config).map_err(StartError)?;
        let ingest = Ingest::read(&setup.config).map_err(StartError)?;
        let mut engine = Self {
            owner: setup.owner,
            config: setup.config,
            now,
            started_at: now,
            last_event: now,
            ids: IdGenerator::new(None),
            max_jobid: None,
            jobs: Jobs::default(),
            active: BTreeSet::new(),
            plugins: Plugins::new(setup.registry, setup.remote, setup.ticks),
            work: Vec::new(),
            suspended: FxHashMap::default(),
            services: FxHashMap::default(),
            instance_data: FxHashMap::default(),
            submitters: FxHashMap::default(),
            ingest,
            queues,
            lanes,
            exec,
            pool: Pool::new(&setup.resources),
            nodes: nodes::Nodes::new(&setup.resources),
            holding: BTreeSet::new(),
            kept: kept::AllKept::default(),
            estimates: estimates::Estimates::default(),
            timers: Timers::default(),
            effects: Effects::default(),
            visited: Vec::new(),
            tally: listing::Tally::default(),
            queue_tallies: queue_tally::QueueTallies::default(),
            waits: waits::Waits::default(),
            inactive: purge::Inactive::default(),
            running: false,
        };
        engine.read_purge_limits().map_err(StartError)?;
        engine.read_nodes().map_err(StartError)?;
        engine.load_configured()?;
        Ok(engine)
    }

    /// Takes one input, at a time, and works until nothing is left to do.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Effects {
        self.now = now;
        match input {
            Input::Request { reply, cred, request } => self.request(reply, cred, request),
            Input::Exec(event) => self.exec_event(event),
            Input::Timer(id) => self.timer(id),
            Input::Remote(call) => self.remote(call),
            Input::Abandoned(reply) => {
                self.services.remove(&reply);
                self.waits.forget(reply);
                self.nodes.watchers.retain(|watcher| *watcher != reply);
            }
        }
        self.settle();
        std::mem::take(&mut self.effects)
    }

    /// The last call before the engine goes: what the next one begins with is written, and who waits
    /// for jobs hears that this engine won't tell the end.
    pub fn unload(&mut self, now: Timestamp) -> Effects {
        self.now = now;
        self.refuse_waiters();
        let checkpoint = self.checkpoint();
        self.effects.writes.extend(checkpoint);
        std::mem::take(&mut self.effects)
    }

    /// Takes one topic through the stack of plugins, as an event would. For benchmarks.
    #[doc(hidden)]
    pub fn call_topic(&mut self, topic: TopicId, job: JobId) {
        if self.plugins.stack.handles(topic) {
            self.notice(Notice { topic, job, cause: Cause::None });
        }
        self.run();
    }

    /// Works off the stack, then gives out resources, until neither leads to more.
    fn settle(&mut self) {
        loop {
            self.run();
            if !self.running || !self.schedule() {
                break;
            }
        }
        self.tell_rest();
        self.rest();
    }

    /// Notes that something happens to a job. Where one input concerns very many, those at the front
    /// rest before the last one's turn.
    fn visit(&mut self, id: JobId) {
        self.visited.push(id);
        if self.visited.len() > 4096 {
            self.rest();
        }
    }

    fn rest(&mut self) {
        for id in self.visited.drain(..) {
            match self.jobs.fold(id) {
                Some(summary) => self.effects.writes.push(Write::Over { id, summary }),
                None => self.jobs.rest(id),
            }
        }
        for (id, summary) in self.jobs.refold() {
            self.effects.writes.push(Write::Over { id, summary });
        }
    }

    fn reply(&mut self, to: ReplyTo, result: Result<Value, RequestError>) {
        self.effects.after.push(Effect::Reply { to, result });
    }

    /// Whether the job is past its gates: before, nobody outside may know of it.
    fn is_accepted(&self, id: JobId) -> bool {
        let record = self.jobs.get(&id);
        record.is_some_and(|record| record.unaccepted.is_none())
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.effects.log.push(LogLine { level, text: text.into() });
    }
}
