//! Starts the parts of a manager in order: the store, the executor, and the engine with the stored jobs on
//! its thread.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use jobtap_core::allocation::Tables;
use jobtap_core::engine::{Cred, Engine, HostCheck, Input, Level, NodeRequest, Request, Setup};
use jobtap_core::job::{JobId, TaskMap, Uid};
use jobtap_core::resource::Idset;
use tokio::sync::{Notify, oneshot};

use super::options::Options;
use super::restore;
use super::start_error::StartError;
use crate::allocations::{Allocations, Surroundings};
use crate::daemon::Failure;
use crate::daemon::attributes::{HOSTS_OF_RANKS, JOBID_PATH};
use crate::daemon::audit::Audit;
use crate::daemon::config::current::{Configuration, remarks};
use crate::daemon::config::linked_plugins::LinkedPlugins;
use crate::daemon::config::settings::Settings;
use crate::daemon::engine::last_words::ENGINE;
use crate::daemon::engine::pulse::Pulse;
use crate::daemon::engine::{self, EngineHandle, Messages, ThreadContext, Turn};
use crate::daemon::execution::host_limits::HostLimits;
use crate::daemon::execution::task_processes::TaskProcesses;
use crate::daemon::execution::{self, Execution};
use crate::daemon::log::Log;
use crate::daemon::node_commands::NodeCommands;
use crate::daemon::plugin_threads::blocking::BlockingThreads;
use crate::daemon::plugin_threads::futures::FutureThreads;
use crate::daemon::plugin_threads::requests::PluginRequests;
use crate::daemon::records::Records;
use crate::daemon::request_parts::{RequestParts, ShutdownRequest};
use crate::daemon::resources::{self, Inventory, ResourceError};
use crate::daemon::rights::access::Access;
use crate::daemon::rights::privacy::Privacy;
use crate::daemon::watchers::hub::Hub;
use crate::daemon::watchers::journal::JournalWatchers;
use crate::daemon::writes;
use crate::daemon::writes::effects::Effector;
use crate::exec::nodes::{Guests, Nodes, NodesExecutor, OWN_NODE};
use crate::exec::{Executor, ExecutorReport, LocalConfig, LocalExecutor, NodeChange};
use crate::processes::Processes;
use crate::store::{
    CommitTimes, Committer, EmbeddedStore, GuestFiles, Reserve, SpaceCheck, Store, StoreError,
    StoreSettings,
};

/// How long the nodes of allocations wait for a manager whose state is there for another one.
const WAIT_FOR_NEXT: Duration = Duration::from_secs(300);

/// Where the asynchronous work and the processes of plugins run.
pub(super) struct PluginRuntime {
    /// The runtime of the processes, and of what the manager looks up for plugins.
    pub plugins: tokio::runtime::Handle,
    /// The processes.
    pub processes: Processes,
    /// The way of their requests to services.
    pub requests: PluginRequests,
}

/// The addresses of the manager.
pub(super) struct Uris<'a> {
    /// The address of its socket.
    pub socket: &'a str,
    /// The address of its HTTP listener, if it has one.
    pub http: Option<String>,
}

/// Starts everything but the socket.
pub(super) fn start_threads(
    options: &Options,
    Uris { socket: uri, http }: Uris<'_>,
    plugin_runtime: PluginRuntime,
    failure: Failure,
) -> Result<(JoinHandle<()>, Arc<RequestParts>), StartError> {
    let owner = Uid::new(rustix::process::geteuid().as_raw());
    let (inventory, nodes) = match open_nodes(options, uri)? {
        Some((executor, inventory)) => {
            plugin_runtime.processes.pass_on(executor.plugin_processes());
            (inventory, Some(executor))
        }
        None => (discover(options)?, None),
    };
    let commands = nodes.as_ref().map(|nodes| Arc::new(NodeCommands::new(nodes.commands(), uri)));
    let guests = nodes.as_ref().map(NodesExecutor::guests).unwrap_or_default();
    let registry = crate::linked::registry()?;
    // Those of the tables are there from the start, too.
    let tables = Tables::read(&options.config)?;
    let ranks = inventory.resources.ranks().union(&tables.ranks()).len();
    let (size, mapping) = (ranks.to_string(), mapping(ranks, nodes.is_some()).to_pmi());
    let hosts = inventory.resources.nodelist().to_string();
    let plugins = LinkedPlugins::new(&registry, &options.config);
    let settings = Settings::read(&options.config, &plugins)?;
    let log = Arc::new(Log::new(options.log_level).with_size(settings.ring_size));
    for said in remarks(&options.config, &plugins) {
        log.write(Level::Warning, &options.source.located(&said.text, &said.place));
    }
    let state = options.statedir.path();
    let store = open_store(&state.join("store"), settings.store, &log)?;
    let records = Records::new(Arc::clone(&store), state);
    let messages = Arc::<Messages>::default();
    let engine = EngineHandle::new(Arc::clone(&messages));
    let limits = HostLimits::of_this_host(&inventory);
    let setup_for_execution = ExecutionSetup { records: &records, limits: &limits, log: &log };
    let ranks = match &options.nodes {
        // More can come with a new configuration.
        Some(nodes) if nodes.is_elastic() => Idset::from(0..=u32::MAX),
        Some(_) => inventory.resources.ranks(),
        None => inventory.local,
    };
    let placed = Placed { nodes, ranks };
    let (execution, ahead) =
        start_execution(options, &engine, setup_for_execution, placed, uri, &settings)?;
    let allocations = match &options.nodes {
        Some(nodes) if nodes.is_elastic() => {
            Some(start_allocations(options, nodes, guests, tables, &engine, &log)?)
        }
        _ => None,
    };
    let hub = Arc::new(Hub::default());
    let journal = Arc::new(JournalWatchers::default());
    let blocking = BlockingThreads::of_this_host(Arc::clone(&log));
    let thread_uses = blocking.uses();
    let effector = Effector {
        engine: engine.clone(),
        hub: Arc::clone(&hub),
        journal: Arc::clone(&journal),
        records: records.clone(),
        execution: execution.clone(),
        allocations: allocations.clone(),
        futures: FutureThreads::new(plugin_runtime.plugins.clone(), Arc::clone(&log))?,
        runtime: plugin_runtime.plugins,
        processes: plugin_runtime.processes,
        requests: plugin_runtime.requests,
        blocking,
        failure,
    };
    let pulse = Pulse::start(Arc::clone(&log))?;
    let setup = Setup {
        owner,
        resources: inventory.resources,
        config: options.config.clone(),
        config_directory: options.source.directory(),
        registry,
        remote: Arc::new(engine.clone()),
        ticks: pulse.ticks(),
        host_check: host_check(limits.clone()),
    };
    let recovery = options.recovery;
    let commits = Arc::<CommitTimes>::default();
    let boot = Boot {
        setup,
        ahead,
        store,
        commits: Arc::clone(&commits),
        effector,
        pulse,
        log: Arc::clone(&log),
        recovery,
    };
    let thread = boot.run(messages)?;
    let audited = settings.audited;
    let configuration =
        configuration(options, &engine, &execution, allocations, &log, plugins.names(), settings);
    let attributes = options.attributes.with([
        (HOSTS_OF_RANKS, mapping),
        ("broker.pid", std::process::id().to_string()),
        ("broker.starttime", crate::daemon::now().as_secs().to_string()),
        ("hostlist", hosts),
        ("hostname", resources::hostname()),
        ("local-uri", uri.to_owned()),
        // All lines are kept, up to the size of the ring.
        ("log-level", "7".to_owned()),
        // Flux has a broker for each rank. This one manager is rank 0, and acts for the others.
        ("rank", "0".to_owned()),
        ("security.owner", owner.as_u32().to_string()),
        ("size", size),
        ("statedir", state.display().to_string()),
    ]);
    let attributes = Arc::new(attributes.with(http.map(|http| ("http-uri", http))));
    let space = SpaceCheck::new(Reserve::default());
    let audit = Arc::new(Audit::open(records.store().as_ref(), engine.clone(), audited)?);
    audit.start(Cred { userid: owner, owner: true });
    let parts = RequestParts {
        owner,
        engine,
        records,
        hub,
        journal,
        commits,
        audit,
        execution,
        log,
        access: Arc::clone(&configuration.access),
        privacy: Arc::clone(&configuration.privacy),
        user_names: Arc::default(),
        configuration,
        space,
        limits,
        thread_uses,
        restart: Notify::new(),
        shutdown: ShutdownRequest::default(),
        attributes,
        added: Arc::default(),
        commands,
    };
    Ok((thread, Arc::new(parts)))
}

fn open_store(
    path: &Path,
    settings: StoreSettings,
    log: &Log,
) -> Result<Arc<dyn Store>, StoreError> {
    let store = EmbeddedStore::open_with(path, settings)?;
    if let Some(repaired) = store.repaired() {
        log.write(Level::Error, &format!("the store was damaged and is repaired\n{repaired}"));
    }
    if let Some(cut) = store.cut() {
        log.write(Level::Warning, &cut.to_string());
    }
    Ok(Arc::new(store))
}

fn configuration(
    options: &Options,
    engine: &EngineHandle,
    execution: &Execution,
    allocations: Option<Arc<Allocations>>,
    log: &Arc<Log>,
    linked: Vec<&'static str>,
    settings: Settings,
) -> Arc<Configuration> {
    let privacy = Arc::new(Privacy::default());
    privacy.set(settings.private_mode);
    let access = Arc::new(Access::default());
    access.set(settings.access);
    Arc::new(Configuration {
        source: options.source.clone(),
        engine: engine.clone(),
        execution: execution.clone(),
        allocations,
        log: Arc::clone(log),
        linked,
        started: options.config.clone(),
        access,
        statedir: options.statedir.path().to_owned(),
        socket: options.socket.clone(),
        privacy,
        max_jobspec: AtomicUsize::new(settings.max_jobspec),
        current: tokio::sync::Mutex::new(options.config.clone()),
    })
}

/// What the engine's thread needs to start.
struct Boot {
    setup: Setup,
    ahead: Option<BegunAhead>,
    store: Arc<dyn Store>,
    commits: Arc<CommitTimes>,
    effector: Effector,
    pulse: Pulse,
    log: Arc<Log>,
    recovery: bool,
}

impl Boot {
    /// Starts the thread and waits until all stored jobs are restored.
    fn run(self, messages: Arc<Messages>) -> Result<JoinHandle<()>, StartError> {
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new().name(ENGINE.to_owned()).spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| self.engine(&messages, &ready));
            if let Err(panic) = std::panic::catch_unwind(run) {
                let _ = ready.send(Err(StartError::Broken(jobtap_core::host::panic_text(&*panic))));
            }
        })?;
        match started.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Broken("its thread ended".into())),
        }
    }

    fn engine(self, messages: &Messages, ready: &mpsc::Sender<Result<(), StartError>>) {
        let Self { setup, ahead, store, commits, effector, pulse, log, recovery } = self;
        let files = effector.records.files();
        let (engine, first) = match restored(setup, ahead, store.as_ref(), files, &log, recovery) {
            Ok(restored) => restored,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let fatal = effector.failure.clone();
        let committer = Committer::start_timed(store, commits, move |error| {
            fatal.report(format!("the store failed: {error}; nothing more is acknowledged"));
        });
        let committer = match committer {
            Ok(committer) => committer,
            Err(error) => return drop(ready.send(Err(error.into()))),
        };
        let effector = Arc::new(effector);
        let turns = |turn, idle| writes::queue_turn(&committer, &effector, turn, idle);
        turns(first, false);
        // After the first turn, whose effects start the restored jobs again: any other job that the executor has by
        // then is a stray.
        let settle = Arc::clone(&effector);
        writes::after_earlier(&committer, move || settle.execution.settle());
        let _ = ready.send(Ok(()));
        let is_watched = || effector.hub.is_watched() || effector.journal.is_watched();
        let failure = &effector.failure;
        let context = ThreadContext {
            log: &log,
            failure,
            pulse: &pulse,
            is_watched: &is_watched,
            is_commit_idle: &|| committer.is_idle(),
        };
        engine::run(engine, messages, &context, turns);
        committer.close();
    }
}

/// The engine with all stored jobs, and its first effects.
pub(super) fn restored(
    setup: Setup,
    ahead: Option<BegunAhead>,
    store: &dyn Store,
    files: &GuestFiles,
    log: &Log,
    recovery: bool,
) -> Result<(Engine, Turn), StartError> {
    let mut engine = Engine::new(crate::clock::now(), setup)?;
    match restore::checkpoint(store)? {
        Some(checkpoint) => engine.restore_checkpoint(&checkpoint)?,
        None => log.write(Level::Info, "restart: checkpoint.job-manager not found"),
    }
    if recovery {
        engine.stop_queues_for_this_run("the manager was started for recovery");
    }
    restore::allocations(store, &mut engine)?;
    restore::nodes(store, &mut engine, log)?;
    restore::instance_data(store, &mut engine)?;
    restore::kept(store, &mut engine, log)?;
    restore::arrays(store, &mut engine, log)?;
    restore::all(store, files, &mut engine, log)?;
    if let Some(begun) = ahead {
        engine.use_prefill(&begun);
    }
    let mut turn = Turn::default();
    turn.add(engine.start(crate::clock::now()), log);
    Ok((engine, turn))
}

/// What the executor's thread shares with other parts of the manager.
struct ExecutionSetup<'a> {
    records: &'a Records,
    limits: &'a HostLimits,
    log: &'a Arc<Log>,
}

/// The nodes of an instance of several, and the ranks on which jobs can run.
struct Placed {
    nodes: Option<NodesExecutor>,
    ranks: Idset,
}

/// Which host has which rank: each its own in an instance of several nodes, and else one all of them.
fn mapping(ranks: usize, is_spread: bool) -> TaskMap {
    let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
    match is_spread {
        true => TaskMap::block(&vec![1; ranks as usize]),
        false => TaskMap::block(&[ranks]),
    }
}

/// Starts the thread that deals with the outer job managers of an elastic instance.
fn start_allocations(
    options: &Options,
    nodes: &Arc<Nodes>,
    guests: Guests,
    tables: Tables,
    engine: &EngineHandle,
    log: &Arc<Log>,
) -> Result<Arc<Allocations>, StartError> {
    // Nobody comes for a temporary state.
    let wait = match options.statedir.is_temporary() {
        true => nodes.grace,
        false => WAIT_FOR_NEXT.max(nodes.grace),
    };
    let (engine, log) = (engine.clone(), Arc::clone(log));
    let surroundings = Surroundings {
        nodes: Arc::clone(nodes),
        guests,
        wait,
        report: Arc::new(move |event| {
            // A manager that has ended hears no more of them.
            let _ = engine.input(Input::Allocation(event));
        }),
        log: Arc::new(move |level, text| log.write(level, &text)),
    };
    Ok(Arc::new(Allocations::start(tables, options.statedir.path(), surroundings)?))
}

/// Waits for the nodes of an instance of several.
fn open_nodes(
    options: &Options,
    uri: &str,
) -> Result<Option<(NodesExecutor, Inventory)>, StartError> {
    let Some(nodes) = &options.nodes else { return Ok(None) };
    let state = options.statedir.path().to_path_buf();
    let mut own = LocalConfig::new(state.join(OWN_NODE))?;
    own.temporary = options.statedir.is_temporary();
    let (executor, infos) = NodesExecutor::open(nodes, own, state, &options.socket, uri)?;
    let inventory = match &options.given {
        // They have properties, too, and the end of the job can have moved since the nodes were first known.
        Some(_) => Inventory { local: Idset::from(0..=0), ..discover(options)? },
        // The engine adds those of the tables.
        None if nodes.is_elastic() => discover(options)?,
        None => resources::of_nodes(&infos, options.end_of_nodes)?,
    };
    Ok(Some((executor, inventory)))
}

/// The resources according to the configuration and the options.
fn discover(options: &Options) -> Result<Inventory, ResourceError> {
    resources::discover(&options.config, &options.test_size, options.given.as_ref())
}

/// Passes on what the executor reports.
pub(super) fn reporting(
    engine: &EngineHandle,
    processes: &TaskProcesses,
    execution: &Execution,
    log: &Arc<Log>,
) -> impl Fn(ExecutorReport) + Send + Sync + use<> {
    let (engine, processes, log) = (engine.clone(), processes.clone(), Arc::clone(log));
    let execution = execution.clone();
    let owner = Cred { userid: Uid::new(rustix::process::geteuid().as_raw()), owner: true };
    move |report| match report {
        ExecutorReport::Events(all) => drop(engine.inputs(all.into_iter().map(Input::Exec))),
        ExecutorReport::Tasks { id, tasks } => processes.told(id, &tasks),
        ExecutorReport::Node { rank, change } => {
            let targets = rank.to_string();
            let request = match change {
                NodeChange::Lost { reason } => {
                    log.write(Level::Error, &format!("rank {rank} is lost: {reason}"));
                    NodeRequest::Offline { targets, reason: Some(reason) }
                }
                NodeChange::Back => {
                    log.write(Level::Info, &format!("rank {rank} is back"));
                    NodeRequest::Online { targets }
                }
            };
            drop(engine.request(owner, Request::Nodes(request)));
        }
        ExecutorReport::Held(jobs) => execution.held(jobs),
        ExecutorReport::Warning(text) => log.write(Level::Warning, &text),
    }
}

/// The jobs that the executor has begun by itself for an earlier manager, each with the job before it.
pub(super) type BegunAhead = Vec<(JobId, JobId)>;

/// Starts the executor's thread. Also returns what it has begun by itself, if it takes jobs ahead of their turn.
fn start_execution(
    options: &Options,
    engine: &EngineHandle,
    setup: ExecutionSetup<'_>,
    placed: Placed,
    uri: &str,
    settings: &Settings,
) -> Result<(Execution, Option<BegunAhead>), StartError> {
    let processes = TaskProcesses::default();
    let (execution, inbox) = Execution::new(processes.clone());
    let report = reporting(engine, &processes, &execution, setup.log);
    let executor: Box<dyn Executor> = match placed.nodes {
        Some(nodes) => {
            nodes.begin(report);
            Box::new(nodes)
        }
        None => {
            let mut local = LocalConfig::new(options.statedir.path().to_path_buf())?;
            local.temporary = options.statedir.is_temporary();
            Box::new(LocalExecutor::connect(local, report)?)
        }
    };
    let begun = executor.held().iter().filter_map(|job| Some((job.id, job.after?)));
    let ahead = executor.takes_jobs_ahead().then(|| begun.collect());
    let parts = execution::ExecutionContext {
        executor,
        records: setup.records.clone(),
        limits: setup.limits.clone(),
        ranks: placed.ranks,
        engine: engine.clone(),
        accounts: execution::Accounts::default(),
        environments: execution::Environments::default(),
        uri: uri.to_owned(),
        jobid_path: options.attributes.get(JOBID_PATH).unwrap_or_default(),
        kill: settings.kill,
        output_limit: settings.output_limit,
    };
    std::thread::Builder::new()
        .name("execution".into())
        .spawn(move || execution::run(inbox, parts))?;
    Ok((execution, ahead))
}

/// Checks that this host can run jobs that plugins have changed.
fn host_check(limits: HostLimits) -> HostCheck {
    HostCheck::new(move |jobspec| limits.check(jobspec))
}

/// Starts a thread for the processes of plugins. They don't share the runtime of the server, which the lines that they
/// print would keep busy.
pub(super) fn plugin_runtime() -> Result<(tokio::runtime::Handle, oneshot::Sender<()>), StartError>
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    std::thread::Builder::new()
        .name("plugins".into())
        .spawn(move || drop(runtime.block_on(stopped)))?;
    Ok((handle, stop))
}
