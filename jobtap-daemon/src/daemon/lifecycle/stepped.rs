//! A manager without threads: its caller drives each part, step by step, in the order of its choice. The parts are those of
//! any manager, and so is what passes between them; only the loops that wait are the caller's.
//!
//! The simulator uses it. Time is that of [`clock::play`](crate::clock::play), what runs jobs is an [`Executor`] of the
//! caller, and asynchronous work runs on the caller's runtime.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};

use jobtap_core::engine::{Cred, Engine, HostCheck, Setup};
use jobtap_core::host::{PluginKey, ProcessCommand, Registry};
use jobtap_core::job::Uid;
use jobtap_core::resource::ResourceSet;
use serde_json::Value;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, ReadHalf};
use tokio::sync::{Notify, watch};

use super::boot::{reporting, restored};
use super::start_error::StartError;
use crate::daemon::Failure;
use crate::daemon::attributes::Attributes;
use crate::daemon::audit::Audit;
use crate::daemon::config::Source;
use crate::daemon::config::current::Configuration;
use crate::daemon::config::linked_plugins::LinkedPlugins;
use crate::daemon::config::settings::Settings;
use crate::daemon::engine::pulse::Pulse;
use crate::daemon::engine::{self, EngineHandle, Messages, ThreadContext, Turn, TurnEnd};
use crate::daemon::execution::host_limits::HostLimits;
use crate::daemon::execution::task_processes::TaskProcesses;
use crate::daemon::execution::{self, Execution, ExecutionWork};
use crate::daemon::log::Log;
use crate::daemon::plugin_requests;
use crate::daemon::plugin_threads::blocking::BlockingThreads;
use crate::daemon::plugin_threads::futures::FutureThreads;
use crate::daemon::plugin_threads::requests::PluginRequests;
use crate::daemon::records::Records;
use crate::daemon::request_parts::{RequestParts, ShutdownRequest};
use crate::daemon::resources::Inventory;
use crate::daemon::rights::access::Access;
use crate::daemon::rights::privacy::Privacy;
use crate::daemon::server::shares::Shares;
use crate::daemon::server::{Connection, Incoming};
use crate::daemon::watchers::hub::Hub;
use crate::daemon::watchers::journal::JournalWatchers;
use crate::daemon::writes;
use crate::daemon::writes::effects::Effector;
use crate::exec::{Executor, ExecutorReport};
use crate::processes::Processes;
use crate::rpc::RpcError;
use crate::store::{Committer, Reserve, SpaceCheck, Store};

/// How many clients may be connected.
const ROOM: usize = 1024;

/// How many bytes may be on their way to or from a client.
const CHANNEL: usize = 1 << 16;

/// Takes the reports of an executor.
pub type Report = Box<dyn Fn(ExecutorReport) + Send + Sync>;

/// What the manager is made of.
pub struct SteppedSetup {
    /// The user that it runs as.
    pub owner: Uid,
    /// Its configuration.
    pub config: Value,
    /// What it allocates.
    pub resources: ResourceSet,
    /// Its plugins.
    pub registry: Registry,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its directory, for the files of jobs.
    pub state_dir: PathBuf,
    /// Its address, for the environment of jobs.
    pub uri: String,
    /// Takes the commands about processes of plugins on other nodes.
    pub on_nodes: Option<OnNodes>,
}

/// Takes commands about processes of plugins.
pub type OnNodes = Box<dyn Fn(PluginKey, ProcessCommand) + Send + Sync>;

/// A manager that is driven step by step.
pub struct SteppedManager {
    engine: Engine,
    messages: Arc<Messages>,
    committer: Committer,
    effector: Arc<Effector>,
    execution: ExecutionWork,
    pulse: Pulse,
    parts: Arc<RequestParts>,
    shares: Arc<Shares>,
    failed: watch::Receiver<Option<String>>,
}

impl SteppedManager {
    /// Starts the manager with the jobs that are stored, within the present runtime. `executor` makes what runs jobs.
    ///
    /// # Errors
    /// As a manager that can't start.
    pub fn start(
        setup: SteppedSetup,
        executor: impl FnOnce(Report) -> Box<dyn Executor>,
    ) -> Result<Self, StartError> {
        let SteppedSetup { owner, config, resources, registry, store, state_dir, uri, on_nodes } =
            setup;
        let runtime = tokio::runtime::Handle::current();
        let (failure, failed) = Failure::new();
        let (plugin_requests, requested) = PluginRequests::new();
        let plugins = LinkedPlugins::new(&registry, &config);
        let settings = Settings::read(&config, &plugins)?;
        let log = Arc::new(Log::in_memory().with_size(settings.ring_size));
        let records = Records::new(Arc::clone(&store), &state_dir);
        let messages = Arc::<Messages>::default();
        let handle = EngineHandle::new(Arc::clone(&messages));
        let local = resources.ranks();
        let inventory = Inventory { resources: resources.clone(), local: local.clone() };
        let limits = HostLimits::of_this_host(&inventory);
        let processes = TaskProcesses::default();
        let (execution, inbox) = Execution::new(processes.clone());
        let executor = executor(Box::new(reporting(&handle, &processes, &execution, &log)));
        let begun = executor.held().iter().filter_map(|job| Some((job.id, job.after?)));
        let ahead = executor.takes_jobs_ahead().then(|| begun.collect());
        let work = execution::ExecutionContext {
            executor,
            records: records.clone(),
            limits: limits.clone(),
            ranks: local,
            engine: handle.clone(),
            accounts: execution::Accounts::unneeded(),
            environments: execution::Environments::default(),
            uri: uri.clone(),
            jobid_path: "/".to_owned(),
            kill: settings.kill,
            output_limit: settings.output_limit,
        };
        let hub = Arc::new(Hub::default());
        let journal = Arc::new(JournalWatchers::default());
        let blocking = BlockingThreads::of_this_host(Arc::clone(&log));
        let thread_uses = blocking.uses();
        let plugin_processes = Processes::start(&runtime, &uri);
        if let Some(on_nodes) = on_nodes {
            plugin_processes.pass_on(on_nodes);
        }
        let effector = Arc::new(Effector {
            engine: handle.clone(),
            hub: Arc::clone(&hub),
            journal: Arc::clone(&journal),
            records: records.clone(),
            execution: execution.clone(),
            allocations: None,
            futures: FutureThreads::none(runtime.clone(), Arc::clone(&log)),
            processes: plugin_processes,
            runtime,
            requests: plugin_requests,
            blocking,
            failure: failure.clone(),
        });
        let pulse = Pulse::still();
        let check = limits.clone();
        let setup = Setup {
            owner,
            resources,
            config: config.clone(),
            config_directory: None,
            registry,
            remote: Arc::new(handle.clone()),
            ticks: pulse.ticks(),
            host_check: HostCheck::new(move |jobspec| check.check(jobspec)),
        };
        let (engine, first) = restored(setup, ahead, store.as_ref(), records.files(), &log, false)?;
        let committer = Committer::without_thread(Arc::clone(&store), move |error| {
            failure.report(format!("the store failed: {error}; nothing more is acknowledged"));
        });
        writes::queue_turn(&committer, &effector, first, false);
        let settle = Arc::clone(&effector);
        writes::after_earlier(&committer, move || settle.execution.settle());
        let privacy = Arc::new(Privacy::default());
        privacy.set(settings.private_mode);
        let access = Arc::new(Access::default());
        access.set(settings.access);
        let configuration = Arc::new(Configuration {
            source: Source::default(),
            engine: handle.clone(),
            execution: execution.clone(),
            allocations: None,
            log: Arc::clone(&log),
            linked: plugins.names(),
            started: config.clone(),
            access: Arc::clone(&access),
            socket: state_dir.join("local-0"),
            statedir: state_dir,
            privacy: Arc::clone(&privacy),
            max_jobspec: AtomicUsize::new(settings.max_jobspec),
            current: tokio::sync::Mutex::new(config),
        });
        let audit = Arc::new(Audit::open(store.as_ref(), handle.clone(), settings.audited)?);
        audit.start(Cred { userid: owner, owner: true });
        let parts = Arc::new(RequestParts {
            owner,
            engine: handle,
            records,
            hub,
            journal,
            commits: Arc::default(),
            audit,
            execution,
            log,
            configuration,
            access,
            privacy,
            user_names: Arc::default(),
            space: SpaceCheck::new(Reserve::default()),
            limits,
            thread_uses,
            restart: Notify::new(),
            shutdown: ShutdownRequest::default(),
            attributes: Arc::new(Attributes::default()),
            added: Arc::default(),
            commands: None,
        });
        drop(tokio::spawn(plugin_requests::serve(requested, Arc::clone(&parts))));
        let execution = ExecutionWork::new(inbox, work);
        let shares = Shares::new(ROOM);
        Ok(Self { engine, messages, committer, effector, execution, pulse, parts, shares, failed })
    }

    /// Lets the engine take a turn, if a message waits for it or a timer is due. `commits` permits it to commit the turn
    /// itself, as the engine's thread does when nothing else is to be done. Returns whether there was a turn.
    pub fn step_engine(&mut self, commits: bool) -> bool {
        self.turn(commits).is_some()
    }

    fn turn(&mut self, commits: bool) -> Option<TurnEnd> {
        let Self { engine, messages, committer, effector, pulse, parts, .. } = self;
        let context = ThreadContext {
            log: &parts.log,
            failure: &effector.failure,
            pulse,
            is_watched: &|| effector.hub.is_watched() || effector.journal.is_watched(),
            is_commit_idle: &|| committer.is_idle(),
        };
        let turns = |turn: Turn, idle: bool| {
            writes::queue_turn(committer, effector, turn, idle && commits);
        };
        engine::step(engine, messages, &context, turns)
    }

    /// Commits the turns that wait, as one group. Returns whether there were any.
    pub fn step_committer(&self) -> bool {
        self.committer.commit_waiting()
    }

    /// Carries out one command of the engine to the executor. Returns whether there was one.
    pub fn step_execution(&mut self) -> bool {
        self.execution.step()
    }

    /// Whether nothing waits for any of these steps now. Timers may be set.
    pub fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.committer.is_idle()
    }

    /// Why the manager can't go on, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    /// Reads from the engine. What it shows may not be durable.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The lines of the manager's log.
    pub fn log(&self) -> Vec<String> {
        self.parts.log.lines().into_iter().map(|line| line.text).collect()
    }

    /// Connects a client of this user, and returns its end of the connection.
    ///
    /// # Errors
    /// The user may not connect.
    pub fn connect(&self, user: Uid) -> Result<DuplexStream, RpcError> {
        let connection = Connection::of_user(user, &self.parts, &self.shares)?;
        let (here, there) = tokio::io::duplex(CHANNEL);
        let (read, write) = tokio::io::split(there);
        drop(tokio::spawn(connection.run(FromClient(read), write)));
        Ok(here)
    }

    /// Ends the manager in order: all that was accepted is committed, unless the store fails.
    pub fn stop(mut self) {
        let owner = Cred { userid: self.parts.owner, owner: true };
        self.parts.audit.finish(owner);
        self.parts.engine.stop();
        while !matches!(self.turn(false), None | Some(TurnEnd::Stop)) {}
        while self.committer.commit_waiting() {}
        self.parts.engine.replies().close();
        self.parts.hub.close();
        self.parts.journal.close();
        while self.execution.step() {}
    }
}

/// What a client sends. That it has left shows when this is read.
struct FromClient(ReadHalf<DuplexStream>);

impl AsyncRead for FromClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Incoming for FromClient {
    fn left(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}
