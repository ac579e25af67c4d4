//! The thread on which a file's plugins live.
//!
//! Slurm calls a plugin from any of its threads and waits, with its locks held. A plugin of the SDK lives
//! on one thread and never waits. So each file has a thread of its own with the plugins, their timers
//! and their futures. A thread of Slurm's sends it what is asked for and waits for the answer with a
//! deadline: a handler that hangs holds up one request, and not the daemon.
//!
//! | file | what it has |
//! |---|---|
//! | `messages` | what the thread is asked, and how the answers come back |
//! | `open` | the requests, prologs and epilogs that have not ended |
//! | `core` | the plugins, and the loop that serves the messages |
//! | `loading` | how the plugins are built, and follow a new configuration |
//! | `callback` | the daemon as a handler sees it |
//! | `commands` | what handlers ask for |
//! | `requests` | a request on its way through the plugins |
//! | `preps` | a prolog or epilog while its handlers run |
//! | `processes` | processes of plugins |

mod callback;
mod commands;
mod core;
mod loading;
mod messages;
mod open;
mod preps;
mod processes;
mod requests;

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jobtap_core::host::{HostKind, PluginDescriptor, RequestKey};
use jobtap_core::plugin::Level;
use jobtap_core::topic::TopicId;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::daemon::{Daemon, PrepEnd};

use self::core::Core;
use self::messages::{Inbox, Message, Reply};
pub(crate) use callback::now;
pub use loading::LoadError;
pub use messages::{Answer, PrepCall, Request};

/// How long a stop waits for the thread.
const STOP: Duration = Duration::from_secs(2);

/// Why a request has no answer of the plugins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// `request-timeout` has passed.
    #[error("no answer of the site's plugins within {0:?}; please report it")]
    Late(Duration),
    /// The thread of the plugins has ended.
    #[error("the site's plugins have stopped; please report it")]
    Stopped,
}

/// The plugins of a file, on their thread.
pub struct Plugins {
    inbox: Inbox,
    daemon: Arc<dyn Daemon>,
    thread: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
    topics: Vec<TopicId>,
    next: AtomicU64,
    configured_at: AtomicI64,
    /// In milliseconds. Set by the thread when it has read the configuration.
    request_timeout: Arc<AtomicU64>,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl Plugins {
    /// Starts the thread, and loads the plugins in the order of the list.
    ///
    /// # Errors
    /// [`LoadError`] if the configuration can't be read, if a plugin refuses it, or if it has a handler that
    /// this kind of file doesn't serve.
    pub fn start(
        kind: HostKind,
        daemon: Arc<dyn Daemon>,
        plugins: Vec<&'static PluginDescriptor>,
    ) -> Result<Self, LoadError> {
        let (sender, receiver) = unbounded_channel();
        let inbox = Inbox(sender);
        let (loaded, is_loaded) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let request_timeout = Arc::new(AtomicU64::new(0));
        let configured_at = AtomicI64::new(daemon.configured_at());
        let topics =
            plugins.iter().flat_map(|plugin| plugin.handlers).map(|entry| entry.id).collect();
        let worker = Worker {
            kind,
            daemon: Arc::clone(&daemon),
            plugins,
            inbox: inbox.clone(),
            receiver,
            request_timeout: Arc::clone(&request_timeout),
        };
        let thread = std::thread::Builder::new().name("jobtap".to_owned()).spawn(move || {
            worker.run(&loaded);
            let _ = end.send(());
        });
        let thread = thread.map_err(|error| LoadError::Thread(error.to_string()))?;
        let stopped = || LoadError::Thread("it ended at once".to_owned());
        is_loaded.recv().map_err(|_| stopped())??;
        let thread = Mutex::new(Some((thread, ended)));
        let next = AtomicU64::new(1);
        Ok(Self { inbox, daemon, thread, topics, next, configured_at, request_timeout })
    }

    /// Whether a plugin has a handler of this topic.
    pub fn handles(&self, topic: TopicId) -> bool {
        self.topics.contains(&topic)
    }

    /// Whether a plugin has a handler of one of these topics.
    pub fn handles_any(&self, topics: &[TopicId]) -> bool {
        topics.iter().any(|topic| self.handles(*topic))
    }

    /// The daemon.
    pub fn daemon(&self) -> &Arc<dyn Daemon> {
        &self.daemon
    }

    /// Lets the thread read the configuration again if the daemon has done so.
    fn follow_configuration(&self) {
        let now = self.daemon.configured_at();
        if self.configured_at.swap(now, Ordering::Relaxed) != now {
            self.inbox.send(Message::Configure);
        }
    }

    /// Asks the plugins about a request, and waits for their answer.
    ///
    /// # Errors
    /// [`NoAnswer`]. The request must be refused then.
    pub fn request(&self, request: Request) -> Result<Answer, NoAnswer> {
        self.follow_configuration();
        let key = RequestKey(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver): (SyncSender<Option<Answer>>, _) = sync_channel(1);
        let reply = Reply::new(move |answer| {
            let _ = sender.send(answer);
        });
        self.inbox.send(Message::Request(key, Box::new(request), reply));
        let limit = Duration::from_millis(self.request_timeout.load(Ordering::Relaxed));
        match receiver.recv_timeout(limit) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(NoAnswer::Stopped),
            Err(RecvTimeoutError::Timeout) => {
                self.inbox.send(Message::Abandon(key));
                Err(NoAnswer::Late(limit))
            }
        }
    }

    /// A new key for a prolog or epilog.
    pub(crate) fn prep_key(&self) -> RequestKey {
        RequestKey(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// What drops the work of a prolog or epilog whose job was cancelled.
    pub(crate) fn cancels_prep(&self, key: RequestKey) -> impl FnOnce() + Send + 'static {
        let inbox = self.inbox.clone();
        move || inbox.send(Message::CancelPrep(key))
    }

    /// Starts the handlers of a prolog or epilog. `ended` is called when all have ended, on any thread, with `None`
    /// if the plugins have stopped before; it must not block.
    pub(crate) fn begin_prep(
        &self,
        key: RequestKey,
        call: PrepCall,
        ended: impl FnOnce(Option<PrepEnd>) + Send + 'static,
    ) {
        self.follow_configuration();
        self.inbox.send(Message::Prep(key, Box::new(call), Reply::new(ended)));
    }

    /// Stops the thread, and drops the plugins. A handler that hangs is left to itself after two seconds.
    pub fn stop(&self) {
        self.inbox.send(Message::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((thread, ended)) = thread else { return };
        if ended.recv_timeout(STOP) == Err(RecvTimeoutError::Timeout) {
            let text = "jobtap: a handler does not return; its thread is left behind";
            return self.daemon.log(Level::Error, text);
        }
        let _ = thread.join();
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread starts with.
struct Worker {
    kind: HostKind,
    daemon: Arc<dyn Daemon>,
    plugins: Vec<&'static PluginDescriptor>,
    inbox: Inbox,
    receiver: UnboundedReceiver<Message>,
    request_timeout: Arc<AtomicU64>,
}

impl Worker {
    fn run(self, loaded: &SyncSender<Result<(), LoadError>>) {
        let Self { kind, daemon, plugins, inbox, receiver, request_timeout } = self;
        daemon.prepare_thread();
        // Time only: reading and writing happens on threads of their own, so that the runtime needs no signals and
        // no descriptors of the daemon's.
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = loaded.send(Err(LoadError::Thread(error.to_string())));
                return;
            }
        };
        runtime.block_on(async {
            let mut core = Core::new(kind, daemon, inbox, request_timeout);
            core.ticks.calls().are_on_this_thread();
            let result = core.load(&plugins);
            let failed = result.is_err();
            let _ = loaded.send(result);
            if !failed {
                core.serve(receiver).await;
            }
        });
        // Futures that wait for something outside must not keep the thread.
        runtime.shutdown_background();
    }
}
