//! Start-up and orderly end of the manager.
//!
//! Start: store, executor, engine with the stored jobs, and only then the socket, so that whoever can
//! connect meets a manager that is ready. End: the same in reverse, each part after those that use it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use jobtap_core::engine::{Cred, Engine, Exception, Level, Request, Setup};
use jobtap_core::job::{Fsd, State, StateSet, Uid};
use jobtap_core::queue::Target;
use jobtap_core::resource::Idset;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::sync::{Notify, oneshot, watch};

use super::audit::{Audit, AuditError};
use super::config::Source;
use super::effects::Effector;
use super::engine_thread::{self, EngineHandle, Message, Surroundings, Turn, answered};
use super::execution::{self, Execution};
use super::hub::Hub;
use super::journal::Journal;
use super::log::{Log, RingSizeError, ring_size};
use super::processes::Processes;
use super::pulse::Pulse;
use super::records::Records;
use super::reload::{ConfigCall, Configuration, warn_of_strangers};
use super::resources::{ResourceError, TestSize};
use super::statedir::StateDir;
use super::timers::Timers;
use super::{Failure, Services, commit, resources, restore, server};
use crate::archive::{self, ArchiveError};
use crate::exec::{ExecError, LocalConfig, LocalExecutor};
use crate::rpc::uri;
use crate::store::{Committer, EmbeddedStore, GuestFiles, Reserve, Store, StoreError};

/// How often a shutdown looks whether the jobs have ended.
const IDLE_POLL: Duration = Duration::from_millis(20);

/// How many turns of the runtime the last answers have to get onto their sockets.
const LAST_WORDS: usize = 64;

/// What a manager is started with.
pub struct Options {
    /// Where the instance configuration comes from.
    pub source: Source,
    /// What was read from there.
    pub config: Value,
    /// Where its state is.
    pub statedir: StateDir,
    /// Its socket.
    pub socket: PathBuf,
    /// Log lines of at least this gravity go to stderr.
    pub log_level: Level,
    /// An archive to write when everything has ended.
    pub dump: Option<PathBuf>,
    /// So many ranks on this host.
    pub test_size: TestSize,
    /// Schedule nothing before somebody starts a queue.
    pub recovery: bool,
}

/// Why the manager didn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The resources are unusable.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The store can't be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The linked plugins can't be used together.
    #[error(transparent)]
    Plugins(#[from] crate::build::LinkedError),
    /// The engine refuses its configuration or a plugin its own.
    #[error(transparent)]
    Engine(#[from] jobtap_core::engine::StartError),
    /// The size of the log is none.
    #[error(transparent)]
    Log(#[from] RingSizeError),
    /// The log of changes can't be had.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The executor can't be had.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// `exec.kill-timeout` is no duration.
    #[error("exec.kill-timeout: invalid FSD {0}")]
    KillTimeout(String),
    /// The socket can't be made.
    #[error("can't listen at {}: {reason}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The system gives no thread or descriptor.
    #[error("can't start the manager: {0}")]
    System(#[from] std::io::Error),
    /// The engine's thread broke down while it restored jobs.
    #[error("the engine failed while starting: {0}")]
    Broken(String),
}

/// A running manager.
pub struct Daemon {
    uri: String,
    services: Arc<Services>,
    server: tokio::task::JoinHandle<()>,
    engine: JoinHandle<()>,
    failed: watch::Receiver<Option<String>>,
    options: Options,
    processes: Processes,
    _plugins: oneshot::Sender<()>,
}

impl Daemon {
    /// Starts everything; on return the manager is ready. Must be called within a tokio runtime.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let uri = uri::of_path(&options.socket);
        let (failure, failed) = Failure::new();
        let (plugins, stop_plugins) = plugin_runtime()?;
        let processes = Processes::start(&plugins);
        let runs = Runs { plugins, processes: processes.clone() };
        let (thread, services) = start_threads(&options, &uri, runs, failure)?;
        let listener = listen(&options.socket)
            .map_err(|reason| StartError::Socket { path: options.socket.clone(), reason })?;
        let server = tokio::spawn(server::serve(listener, Arc::clone(&services)));
        Ok(Self {
            uri,
            services,
            server,
            engine: thread,
            failed,
            options,
            processes,
            _plugins: stop_plugins,
        })
    }

    /// The address for `JOBTAP_URI`.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits until the manager can't go on, and says why.
    pub async fn failure(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the engine has ended".into(),
        }
    }

    /// Has the configuration read again, without waiting for the end of it; who refuses it is in the
    /// log, and the old one stays.
    pub fn reload(&self) {
        let cred = Cred { userid: self.services.owner, owner: true };
        let services = Arc::clone(&self.services);
        tokio::spawn(async move {
            let configuration = Arc::clone(&services.configuration);
            if let Err(refusal) = configuration.call(cred, ConfigCall::Reload).await {
                let text =
                    format!("the new configuration is refused, the old one stays: {refusal}");
                services.log.write(Level::Error, &text);
            }
        });
    }

    /// Stops scheduling, cancels what runs, and waits until nothing does; only where the state is
    /// temporary, otherwise running jobs go on and the next start picks them up.
    pub async fn finish_jobs(&self) {
        if !self.options.statedir.is_temporary() {
            return;
        }
        let cred = Cred { userid: self.services.owner, owner: true };
        let engine = &self.services.engine;
        let exception = Exception {
            kind: "cancel".into(),
            severity: 0,
            note: "the manager is shutting down".into(),
        };
        let (target, reason) = (Target::all(), None);
        let stop = Request::QueueStart { target, start: false, reason, nocheckpoint: true };
        let cancel = Request::RaiseAll {
            dry_run: false,
            userid: None,
            states: StateSet::from(State::Run),
            exception,
        };
        let _ = answered(engine.request(cred, stop)).await;
        let _ = answered(engine.request(cred, cancel)).await;
        while self.running_jobs().await > 0 {
            tokio::time::sleep(IDLE_POLL).await;
        }
    }

    async fn running_jobs(&self) -> u64 {
        let stats = answered(self.services.engine.read(|engine| Ok(engine.job_stats()))).await;
        let stats = stats.unwrap_or_default();
        let count = |state| stats.pointer(&format!("/job_states/{state}")).and_then(Value::as_u64);
        count("run").unwrap_or(0) + count("cleanup").unwrap_or(0)
    }

    /// Waits until somebody asks for a restart.
    pub async fn restart_asked(&self) {
        self.services.restart.notified().await;
    }

    /// Ends the manager and starts it on what it left, as another process would be. Jobs go on, and so
    /// does the configuration in force; what waits for an answer is told that the manager ends.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restart(self) -> Result<Self, StartError> {
        let (mut options, services) = self.stop(false).await;
        options.config = services.configuration.current.lock().await.clone();
        // Aborted connections have it until their turn comes, and with it the store.
        while Arc::strong_count(&services) > 1 {
            tokio::task::yield_now().await;
        }
        drop(services);
        Self::start(options)
    }

    /// Ends the manager: what was taken in is made durable, then everything stops.
    ///
    /// # Errors
    /// The archive that was to be left at the end can't be written.
    pub async fn shutdown(self) -> Result<(), ArchiveError> {
        let for_good = self.options.statedir.is_temporary();
        let (options, services) = self.stop(for_good).await;
        let Some(file) = &options.dump else {
            return Ok(());
        };
        let records = &services.records;
        let newer = archive::Overrides::new();
        archive::dump(records.store().as_ref(), records.files(), newer, file).map(drop)
    }

    /// Stops everything; `for_good`: nobody will ask for the jobs any more.
    async fn stop(self, for_good: bool) -> (Options, Arc<Services>) {
        let Self { services, server, engine, options, processes, .. } = self;
        let _ = std::fs::remove_file(&options.socket);
        services.audit.finish(Cred { userid: services.owner, owner: true });
        services.engine.stop();
        let ended = tokio::task::spawn_blocking(move || {
            let _ = engine.join();
            // Only now: their ends are no longer heard, so nothing is recorded as failed that the
            // next manager may begin again.
            processes.close();
        });
        let _ = ended.await;
        // Who asks from now on, or still waits for an answer, hears that the manager ends; who
        // follows the journal, that this was all of it.
        services.engine.replies().close();
        services.hub.close();
        services.journal.close();
        services.log.close();
        for _ in 0..LAST_WORDS {
            tokio::task::yield_now().await;
        }
        server.abort();
        let _ = server.await;
        services.execution.close(for_good);
        (options, services)
    }
}

/// Where plugins' asynchronous work and processes run.
struct Runs {
    plugins: tokio::runtime::Handle,
    processes: Processes,
}

/// Brings up everything but the socket.
fn start_threads(
    options: &Options,
    uri: &str,
    runs: Runs,
    failure: Failure,
) -> Result<(JoinHandle<()>, Arc<Services>), StartError> {
    let owner = Uid::new(rustix::process::geteuid().as_raw());
    let inventory = resources::discover(&options.config, &options.test_size)?;
    let registry = crate::build::linked::registry()?;
    let linked: Vec<&'static str> = registry.plugins().map(|plugin| plugin.name).collect();
    let log = Log::new(options.log_level).with_size(ring_size(&options.config)?);
    let log = Arc::new(log);
    warn_of_strangers(&options.config, &linked, &log);
    let state = options.statedir.path();
    let store = EmbeddedStore::open(&state.join("store"))?;
    if let Some(cut) = store.cut() {
        log.write(Level::Warning, &cut.to_string());
    }
    let store: Arc<dyn Store> = Arc::new(store);
    let records = Records::new(Arc::clone(&store), state);
    let (sender, messages) = mpsc::channel();
    let engine = EngineHandle::new(sender);
    let surroundings = (records.clone(), inventory.local);
    let execution = start_execution(options, &engine, surroundings, uri)?;
    let hub = Arc::new(Hub::default());
    let journal = Arc::new(Journal::default());
    let effector = Effector {
        engine: engine.clone(),
        hub: Arc::clone(&hub),
        journal: Arc::clone(&journal),
        records: records.clone(),
        execution: execution.clone(),
        timers: Timers::start(engine.clone())?,
        plugins: runs.plugins,
        processes: runs.processes,
        failure,
    };
    let pulse = Pulse::start(Arc::clone(&log))?;
    let setup = Setup {
        owner,
        resources: inventory.resources,
        config: options.config.clone(),
        registry,
        remote: Arc::new(engine.clone()),
        ticks: pulse.ticks(),
    };
    let recovery = options.recovery;
    let boot = Boot { setup, store, effector, pulse, log: Arc::clone(&log), recovery };
    let thread = boot.run(messages)?;
    let configuration = Arc::new(Configuration {
        source: options.source.clone(),
        engine: engine.clone(),
        log: Arc::clone(&log),
        linked,
        current: tokio::sync::Mutex::new(options.config.clone()),
    });
    let reserve = Reserve::default();
    let audit = Audit::open(records.store().as_ref(), engine.clone(), &options.config)?;
    audit.start(Cred { userid: owner, owner: true });
    let services = Services {
        owner,
        engine,
        records,
        hub,
        journal,
        audit,
        execution,
        log,
        configuration,
        reserve,
        restart: Notify::new(),
    };
    Ok((thread, Arc::new(services)))
}

/// What the engine's thread needs to come up.
struct Boot {
    setup: Setup,
    store: Arc<dyn Store>,
    effector: Effector,
    pulse: Pulse,
    log: Arc<Log>,
    recovery: bool,
}

impl Boot {
    /// Starts the thread and waits until all stored jobs are restored.
    fn run(self, messages: mpsc::Receiver<Message>) -> Result<JoinHandle<()>, StartError> {
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| self.engine(&messages, &ready));
            if let Err(panic) = std::panic::catch_unwind(run) {
                let _ = ready.send(Err(StartError::Broken(super::panic_text(&*panic))));
            }
        })?;
        match started.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Broken("its thread ended".into())),
        }
    }

    fn engine(
        self,
        messages: &mpsc::Receiver<Message>,
        ready: &mpsc::Sender<Result<(), StartError>>,
    ) {
        let Self { setup, store, effector, pulse, log, recovery } = self;
        let files = effector.records.files();
        let (engine, first) = match restored(setup, store.as_ref(), files, &log, recovery) {
            Ok(restored) => restored,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let fatal = effector.failure.clone();
        let committer = Committer::start(store, move |error| {
            fatal.report(format!("the store failed: {error}; nothing more is acknowledged"));
        });
        let committer = match committer {
            Ok(committer) => committer,
            Err(error) => return drop(ready.send(Err(error.into()))),
        };
        let effector = Arc::new(effector);
        let turns = |turn| commit::submit(&committer, &effector, turn);
        turns(first);
        let settle = Arc::clone(&effector);
        commit::then(&committer, move || settle.execution.settle());
        let _ = ready.send(Ok(()));
        let around = Surroundings { log: &log, failure: &effector.failure, pulse: &pulse };
        engine_thread::run(engine, messages, &around, turns);
        committer.close();
    }
}

/// The engine with all stored jobs, and what it wants done first.
fn restored(
    setup: Setup,
    store: &dyn Store,
    files: &GuestFiles,
    log: &Log,
    recovery: bool,
) -> Result<(Engine, Turn), StartError> {
    let mut engine = Engine::new(super::now(), setup)?;
    if let Some(checkpoint) = restore::checkpoint(store)? {
        engine.restore_checkpoint(&checkpoint)?;
    }
    if recovery {
        engine.hold_queues("the manager was started for recovery");
    }
    restore::nodes(store, &mut engine, log)?;
    restore::instance_data(store, &mut engine)?;
    restore::all(store, files, &mut engine, log)?;
    let mut turn = Turn::default();
    turn.add(engine.start(super::now()), log);
    Ok((engine, turn))
}

/// `exec.kill-timeout`, if it is said.
pub(super) fn kill_timeout(config: &Value) -> Result<Option<Duration>, StartError> {
    let Some(patience) = config.pointer("/exec/kill-timeout") else {
        return Ok(None);
    };
    let invalid = || StartError::KillTimeout(patience.to_string());
    let patience = Fsd::deserialize(patience).map_err(|_| invalid())?;
    patience.to_duration().map(Some).ok_or_else(invalid)
}

fn start_execution(
    options: &Options,
    engine: &EngineHandle,
    (records, local_ranks): (Records, Idset),
    uri: &str,
) -> Result<Execution, StartError> {
    let mut local = LocalConfig::new(options.statedir.path().to_path_buf())?;
    if let Some(patience) = kill_timeout(&options.config)? {
        local.kill_timeout = patience;
    }
    let events = engine.clone();
    let executor = LocalExecutor::connect(local, move |event| {
        if let Some(event) = execution::translate(event) {
            events.input(jobtap_core::engine::Input::Exec(event));
        }
    })?;
    let (execution, inbox) = Execution::new();
    let parts = execution::Parts {
        executor,
        records,
        local_ranks,
        engine: engine.clone(),
        uri: uri.to_owned(),
    };
    std::thread::Builder::new()
        .name("execution".into())
        .spawn(move || execution::run(&inbox, parts))?;
    Ok(execution)
}

/// A thread for the asynchronous work of plugins: one that blocks must not hold up the manager.
fn plugin_runtime() -> Result<(tokio::runtime::Handle, oneshot::Sender<()>), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    std::thread::Builder::new()
        .name("plugins".into())
        .spawn(move || drop(runtime.block_on(stopped)))?;
    Ok((handle, stop))
}

/// A socket that only its owner can connect to; closed to everyone until that is so.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, 1024)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}
