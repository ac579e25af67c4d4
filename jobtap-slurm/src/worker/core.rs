//! The state of the plugins' thread, and its loop that handles messages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jobtap_core::engine::Mirror;
use jobtap_core::host::{
    Args, BoundHandler, CallResult, Command, Detail, Fault, HostKind, LoadedPlugin, PluginKey,
    RemoteCall, RemoteWork, RequestKey, Stack, Ticks, TimerKey,
};
use jobtap_core::job::{Job, JobId};
use jobtap_core::plugin::{CallError, Level};
use jobtap_core::queue::Queues;
use jobtap_core::resource::ResourceSet;
use jobtap_core::topic::TopicId;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;

use super::callback::Callback;
use super::messages::{Inbox, Message};
use super::open::{Chain, Prep};
use super::processes::Processes;
use crate::config::{Config, REQUEST_TIMEOUT};
use crate::daemon::Daemon;

/// A host command, and the plugin that has asked for it.
pub(super) type Queued = (PluginKey, Command);

/// Describes a fault.
pub(super) fn text_of(fault: &Fault) -> String {
    match fault {
        Fault::Failure(failure) => failure.text().to_owned(),
        Fault::Panic(text) => format!("panicked: {text}"),
        Fault::Busy => "called while it is being called".to_owned(),
    }
}

/// The state of the plugins' thread.
pub(crate) struct Core {
    pub(super) kind: HostKind,
    pub(super) daemon: Arc<dyn Daemon>,
    pub(super) inbox: Inbox,
    pub(super) stack: Stack,
    pub(super) config: Config,
    pub(super) ticks: Ticks,
    pub(super) next_key: u64,
    pub(super) chains: FxHashMap<RequestKey, Box<Chain>>,
    pub(super) preps: Vec<Prep>,
    pub(super) timers: FxHashMap<TimerKey, AbortHandle>,
    pub(super) processes: Processes,
    /// The jobs that requests describe, while the plugins decide on them.
    pub(super) mirror: Mirror,
    /// The plugins' data on jobs. It lasts as long as the request, prolog or epilog in which they see the job.
    pub(super) data: FxHashMap<(PluginKey, JobId), Value>,
    pub(super) instance_data: FxHashMap<PluginKey, Value>,
    /// Always empty, as are the queues: this host knows nothing about the cluster.
    pub(super) resources: ResourceSet,
    pub(super) queues: Queues,
    pub(super) request_timeout: Arc<AtomicU64>,
    /// The messages about unsupported calls of plugins that have been logged.
    unserved: RefCell<BTreeSet<String>>,
}

/// The result of one callback, with its commands.
pub(super) struct Called {
    pub(super) result: CallResult,
    commands: Vec<Queued>,
    /// The jobs in the mirror that already show the commands.
    noted: Vec<JobId>,
}

impl Core {
    pub(super) fn new(
        kind: HostKind,
        daemon: Arc<dyn Daemon>,
        inbox: Inbox,
        request_timeout: Arc<AtomicU64>,
    ) -> Self {
        let config = Config {
            whole: Value::Object(Default::default()),
            directory: PathBuf::new(),
            request_timeout: REQUEST_TIMEOUT,
        };
        let processes = Processes::new(Arc::clone(&daemon));
        Self {
            kind,
            daemon,
            inbox,
            stack: Stack::default(),
            config,
            ticks: Ticks::default(),
            next_key: 1,
            chains: FxHashMap::default(),
            preps: Vec::new(),
            timers: FxHashMap::default(),
            processes,
            mirror: Mirror::default(),
            data: FxHashMap::default(),
            instance_data: FxHashMap::default(),
            resources: ResourceSet::new(),
            queues: Queues::default(),
            request_timeout,
            unserved: RefCell::default(),
        }
    }

    pub(super) async fn serve(&mut self, mut receiver: UnboundedReceiver<Message>) {
        while let Some(message) = receiver.recv().await {
            match message {
                Message::Request(key, request, reply) => self.begin_request(key, *request, reply),
                Message::Abandon(key) => self.abandon_request(key),
                Message::Prep(key, call, reply) => self.begin_prep(key, *call, reply),
                Message::CancelPrep(key) => self.cancel_prep(key),
                Message::PrepTimeout(serial) => self.end_late_prep(serial),
                Message::Configure => self.configure(),
                Message::Remote(call) => self.remote(call),
                Message::Stop => {
                    self.unload();
                    break;
                }
            }
        }
        self.processes.kill_all(None);
    }

    /// Calls one handler. The caller carries out the commands with [`settle`](Self::settle), after it has looked at the
    /// outcome.
    pub(super) fn call(
        &self,
        bound: &BoundHandler,
        topic: TopicId,
        job: Option<&Job>,
        detail: Detail<'_>,
    ) -> Called {
        let host = self.host(bound.instance(), job);
        let args = Args { host: &host, topic, job, detail };
        // `BoundHandler::call` catches panics.
        let (result, _) = bound.call(&args, &self.ticks);
        let (commands, noted) = host.asked(result.as_ref().err().map(|fault| &**fault));
        Called { result, commands, noted }
    }

    /// Carries out the commands of a callback and returns its result.
    pub(super) fn settle(&mut self, called: Called) -> CallResult {
        self.mirror.forget(called.noted);
        self.carry_out(called.commands);
        called.result
    }

    fn host<'c>(&'c self, instance: &'c LoadedPlugin, job: Option<&'c Job>) -> Callback<'c> {
        let (asked, noted) = Default::default();
        Callback { core: self, instance: Cell::new(instance), job, asked, noted }
    }

    /// Runs work or commands that a plugin's remote handle has sent. They are dropped if the plugin isn't loaded any
    /// more.
    fn remote(&mut self, call: RemoteCall) {
        let Some(plugin) = self.stack.get(call.plugin).map(Rc::clone) else { return };
        let commands = match call.work {
            RemoteWork::Commands(commands) => {
                commands.into_iter().map(|command| (call.plugin, command)).collect()
            }
            RemoteWork::Call(work) => {
                let host = self.host(&plugin, None);
                let args = Args::new(&host, TopicId::Unlisted);
                let called = plugin.call_outside_topics(&self.ticks, |plugin| work(plugin, &args));
                match called {
                    // The plugin is being called, which is impossible here: no message is handled during a callback.
                    None => return,
                    Some((Ok(()), _)) => {
                        let (commands, noted) = host.asked(None);
                        self.mirror.forget(noted);
                        commands
                    }
                    Some((Err(panicked), _)) => {
                        self.log(&plugin, Level::Error, &format!("later: {panicked}"));
                        return;
                    }
                }
            }
        };
        self.carry_out(commands);
    }

    /// Writes a line with the plugin's name to the daemon's log.
    pub(super) fn log(&self, plugin: &LoadedPlugin, level: Level, text: &str) {
        self.daemon.log(level, &format!("jobtap: {}: {text}", plugin.name()));
    }

    /// Logs once per plugin and call that the call isn't supported, since the plugin may ignore the error.
    pub(super) fn log_unsupported_call(&self, plugin: &LoadedPlugin, error: &CallError) {
        let text = format!("jobtap: {}: {error}", plugin.name());
        if self.unserved.borrow_mut().insert(text.clone()) {
            self.daemon.unserved(&text);
        }
    }

    /// Sends a message to this thread after some time.
    pub(super) fn after(&self, delay: Duration, message: Message) -> AbortHandle {
        let inbox = self.inbox.clone();
        let waiting = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            inbox.send(message);
        });
        waiting.abort_handle()
    }
}
