//! Starts, restarts and ends the manager.
//!
//! The parts start in order: the store, the executor, the engine with the stored jobs, and only then the socket, so
//! that every client that can connect finds a manager that is ready. At the end each part is stopped after those that
//! use it.

mod boot;
mod options;
mod restore;
mod start_error;
pub mod statedir;
pub mod stepped;
mod stored_jobs;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jobtap_core::allocation::Tables;
use jobtap_core::engine::{Cred, Level, NodeRequest, RaisedException, Request};
use jobtap_core::job::{State, StateSet};
use jobtap_core::queue::Target;
use tokio::sync::{oneshot, watch};

use self::boot::{PluginRuntime, Uris, plugin_runtime, start_threads};
pub use self::options::Options;
pub use self::start_error::StartError;
use super::Failure;
use super::config::current::ConfigCall;
use super::config::http::HttpSettings;
use super::engine::answered;
use super::http::HttpListener;
use super::plugin_requests;
use super::plugin_threads::requests::PluginRequests;
use super::request_parts::RequestParts;
use super::resources::ResourceError;
use super::server;
use super::unix_socket::{listen, remove_socket};
use crate::archive::{self, ArchiveError};
use crate::open_files::OpenFiles;
use crate::processes::Processes;
use crate::rpc::uri;
use crate::stderr;

/// The polling interval while jobs, or tasks that use the store, are ending.
const IDLE_POLL: Duration = Duration::from_millis(20);

/// How long the engine and the store may take to end.
const LONGEST_END: Duration = Duration::from_secs(20);

/// How long it may take until all allocations are given back.
const GIVING_BACK: Duration = Duration::from_secs(20);

/// How many turns of the runtime the last responses get in which to be written to their sockets. Bounded, since a
/// client that doesn't read must not delay the end of the manager.
const LAST_WORDS: usize = 64;

/// A running manager.
pub struct Daemon {
    uri: String,
    parts: Arc<RequestParts>,
    server: tokio::task::JoinHandle<()>,
    requests: tokio::task::JoinHandle<()>,
    http: Option<tokio::task::JoinHandle<()>>,
    engine: JoinHandle<()>,
    failed: watch::Receiver<Option<String>>,
    options: Options,
    processes: Processes,
    _plugins: oneshot::Sender<()>,
}

impl Daemon {
    /// Starts everything. On return the manager is ready. Must be called within a tokio runtime.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let (source, config) = (options.source.clone(), options.config.clone());
        Self::start_all(options).map_err(|error| error.at(&source, &config))
    }

    fn start_all(options: Options) -> Result<Self, StartError> {
        let uri = uri::of_path(&options.socket);
        let open_files = OpenFiles::of_this_process();
        let room = match &options.nodes {
            Some(nodes) => {
                let tables = Tables::read(&options.config)?;
                let more = u32::try_from(tables.ranks().len()).unwrap_or(u32::MAX);
                open_files.connections_beside(nodes.size.saturating_add(more))
            }
            None => open_files.connections(),
        };
        let (failure, failed) = Failure::new();
        let (plugins, stop_plugins) = plugin_runtime()?;
        let processes = Processes::start(&plugins, &uri);
        let (requests, requested) = PluginRequests::new();
        let runs = PluginRuntime { plugins, processes: processes.clone(), requests };
        // First, since a manager that can't listen where it is told to must not start. Clients wait until it is ready.
        let http = HttpSettings::read(&options.config)
            .and_then(|settings| settings.as_ref().map(HttpListener::open).transpose())?;
        let uris = Uris { socket: &uri, http: http.as_ref().map(HttpListener::uri) };
        let (thread, parts) = start_threads(&options, uris, runs, failure)?;
        let opened = listen(&options.socket).and_then(|listener| {
            parts.configuration.access.apply_to(options.statedir.path(), &options.socket)?;
            Ok(listener)
        });
        let listener =
            opened.map_err(|reason| StartError::Socket { path: options.socket.clone(), reason })?;
        let for_http = if http.is_some() { room / 8 } else { 0 };
        let requests = tokio::spawn(plugin_requests::serve(requested, Arc::clone(&parts)));
        let server = tokio::spawn(server::serve(listener, Arc::clone(&parts), room - for_http));
        let http = http.map(|http| tokio::spawn(http.serve(Arc::clone(&parts), for_http)));
        Ok(Self {
            uri,
            parts,
            server,
            requests,
            http,
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

    /// Waits until the manager cannot go on, and returns the reason.
    pub async fn failure(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the engine has ended".into(),
        }
    }

    /// Begins to read the configuration again; the task ends when that is done. A configuration that is refused is
    /// reported in the log, and the old one stays in force.
    pub fn reload(&self) -> tokio::task::JoinHandle<()> {
        let cred = Cred { userid: self.parts.owner, owner: true };
        let parts = Arc::clone(&self.parts);
        tokio::spawn(async move {
            let configuration = Arc::clone(&parts.configuration);
            if let Err(refusal) = configuration.call(cred, ConfigCall::Reload).await {
                let text =
                    format!("the new configuration is refused, the old one stays: {refusal}");
                parts.log.write(Level::Error, &text);
            }
        })
    }

    /// Returns when the engine and the store have processed a request.
    pub async fn responds(&self) {
        // Results of reads are delivered once everything before them is durable. A refusal is a response, too: the
        // manager ends then.
        let _ = answered(self.parts.engine.read(|_| Ok(()))).await;
    }

    /// Moves the end of the resources to this time (UNIX seconds, 0: never), after the end of the job that this manager
    /// runs as has moved.
    pub fn move_end(&self, end: f64) {
        let cred = Cred { userid: self.parts.owner, owner: true };
        let parts = Arc::clone(&self.parts);
        tokio::spawn(async move {
            let request = Request::Nodes(NodeRequest::End(end));
            if let Err(refusal) = answered(parts.engine.request(cred, request)).await {
                let text = format!("the new end of this manager's job is refused: {refusal}");
                parts.log.write(Level::Warning, &text);
            }
        });
    }

    /// Stops scheduling, cancels running jobs, and waits until none runs. Without this, running jobs
    /// continue, and the next manager on this state directory takes them over.
    pub async fn finish_jobs(&self) {
        let cred = Cred { userid: self.parts.owner, owner: true };
        let engine = &self.parts.engine;
        let exception = RaisedException::new("cancel", 0, "");
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
        let running = self.parts.engine.read(|engine| Ok(engine.running_jobs()));
        // An engine that has failed runs no jobs.
        answered(running).await.unwrap_or_default()
    }

    /// Waits until a client requests that the manager ends.
    pub async fn shutdown_asked(&self) {
        self.parts.shutdown.asked().await;
    }

    /// Waits until a client requests a restart.
    pub async fn restart_asked(&self) {
        self.parts.restart.notified().await;
    }

    /// Ends the manager and starts it again on its state directory. Jobs continue, and the configuration
    /// stays in force. Requests that wait for a response are refused. `end` is the last one that was passed
    /// to [`move_end`](Self::move_end), if any.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restart(self, end: Option<f64>) -> Result<Self, StartError> {
        let (mut options, parts) = self.stop(false).await;
        if let (Some(given), Some(end)) = (&mut options.given, end) {
            given.set_expiration(end).map_err(ResourceError::Set)?;
        }
        options.config = parts.configuration.current.lock().await.clone();
        options.attributes = Arc::clone(&parts.attributes);
        if std::env::current_dir().is_err() {
            // The current directory was removed, and the store's engine needs one. Not `/`: a configuration
            // with a relative path must not be read from there.
            std::env::set_current_dir(options.statedir.path())?;
        }
        // Aborted connections hold the store until their tasks run again, and a dump holds it until it is written.
        let store = Arc::downgrade(parts.records.store());
        drop(parts);
        while store.strong_count() > 0 {
            tokio::time::sleep(IDLE_POLL).await;
        }
        Self::start(options)
    }

    /// Ends the manager: requests that were accepted are made durable, then everything is stopped. With `gives_back`, all
    /// allocations of an elastic instance end; without, they are there for the next manager.
    ///
    /// # Errors
    /// The archive of [`Options::dump`] cannot be written.
    pub async fn shutdown(self, gives_back: bool) -> Result<(), ArchiveError> {
        // The nodes of an instance end with it, and no manager comes back for their jobs.
        let nodes = self.options.nodes.as_ref();
        let nodes_end = nodes.is_some_and(|nodes| gives_back || !nodes.is_elastic());
        let for_good = self.options.statedir.is_temporary() || nodes_end;
        let (options, parts) = self.stop(for_good).await;
        let Some(file) = parts.shutdown.dump().or(options.dump) else {
            return Ok(());
        };
        let records = &parts.records;
        let newer = archive::Overrides::new();
        archive::dump(records.store().as_ref(), records.files(), newer, &file).map(drop)
    }

    /// Stops everything. `for_good` says that no manager will come back for the jobs.
    async fn stop(self, for_good: bool) -> (Options, Arc<RequestParts>) {
        let Self { parts, server, requests, http, engine, options, processes, .. } = self;
        remove_socket(&options.socket);
        parts.audit.finish(Cred { userid: parts.owner, owner: true });
        parts.engine.stop();
        let ended = tokio::task::spawn_blocking(move || {
            let _ = engine.join();
            // Only now, when the ends of processes are no longer reported: otherwise jobs would be recorded as failed
            // although the next manager may begin their prologs again.
            processes.close();
        });
        if tokio::time::timeout(LONGEST_END, ended).await.is_err() {
            stuck_at_the_end();
        }
        // Requests that wait, and those that come from now on, are refused. Streams of events end.
        parts.engine.replies().close();
        parts.hub.close();
        parts.journal.close();
        parts.log.close();
        for _ in 0..LAST_WORDS {
            tokio::task::yield_now().await;
        }
        for task in [server, requests].into_iter().chain(http) {
            task.abort();
            let _ = task.await;
        }
        if let Some(allocations) = parts.configuration.allocations.as_ref().filter(|_| for_good) {
            allocations.end_all(GIVING_BACK).await;
        }
        parts.execution.close(for_good);
        (options, parts)
    }
}

/// Ends the process although the engine hasn't: a thread can't be stopped from outside. As after a crash, what was
/// acknowledged is in the store, and running jobs continue.
fn stuck_at_the_end() -> ! {
    let text = format!(
        "jobtap: the engine does not end within {} s: a plugin's handler may wait or loop, or the disk hangs. The \
         process ends without it; what was acknowledged is stored",
        LONGEST_END.as_secs()
    );
    stderr::line_of(Level::Error, &text);
    stderr::flush();
    std::process::exit(1)
}
