//! The thread on which the plugins of a file run.
//!
//! Slurm calls a plugin from any of its threads and waits while it holds its locks. A plugin of the SDK lives
//! on one thread and never waits. So each file has a thread of its own with the plugins, their timers
//! and their futures. Slurm's thread sends it a message and waits for the answer with a deadline: a handler
//! that hangs delays one request, but not the daemon.
//!
//! | file | content |
//! |---|---|
//! | `messages` | the messages to the thread, and the way its answers come back |
//! | `open` | the requests, prologs and epilogs that have not ended |
//! | `core` | the state of the thread, and its loop that handles messages |
//! | `loading` | building the plugins, and passing a new configuration to them |
//! | `callback` | the host that a handler sees |
//! | `commands` | carrying out the commands of handlers |
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

/// How long [`Plugins::stop`] waits for the thread.
const STOP: Duration = Duration::from_secs(2);

/// Why the plugins haven't answered a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// `request-timeout` has passed.
    #[error("no answer of the site's plugins within {0:?}; please report it")]
    Late(Duration),
    /// The plugins' thread has ended.
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
    /// In milliseconds. The thread sets it when it has read the configuration.
    request_timeout: Arc<AtomicU64>,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl Plugins {
    /// Starts the thread and loads the plugins in the order of the list.
    ///
    /// # Errors
    /// [`LoadError`] if the configuration can't be read, or if a plugin refuses it or has a handler that this kind
    /// of Slurm plugin never calls.
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
        let thread = thread.map_err(LoadError::Thread)?;
        is_loaded.recv().map_err(|_| LoadError::ThreadEnded)??;
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

    /// Makes the thread read the configuration again if the daemon has done so.
    fn follow_configuration(&self) {
        let now = self.daemon.configured_at();
        if self.configured_at.swap(now, Ordering::Relaxed) != now {
            self.inbox.send(Message::Configure);
        }
    }

    /// Sends a request to the plugins and waits for their answer.
    ///
    /// # Errors
    /// [`NoAnswer`]. Then the caller must refuse the request.
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

    /// Returns a new key for a prolog or epilog.
    pub(crate) fn prep_key(&self) -> RequestKey {
        RequestKey(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a function that drops the work of a prolog or epilog whose job was canceled.
    pub(crate) fn cancels_prep(&self, key: RequestKey) -> impl FnOnce() + Send + 'static {
        let inbox = self.inbox.clone();
        move || inbox.send(Message::CancelPrep(key))
    }

    /// Starts the handlers of a prolog or epilog. `ended` is called on any thread when all have ended, or with `None`
    /// if the plugins stop before. It must not block.
    pub(crate) fn begin_prep(
        &self,
        key: RequestKey,
        call: PrepCall,
        ended: impl FnOnce(Option<PrepEnd>) + Send + 'static,
    ) {
        self.follow_configuration();
        self.inbox.send(Message::Prep(key, Box::new(call), Reply::new(ended)));
    }

    /// Stops the thread and drops the plugins. If a handler hangs, its thread is left behind after two seconds.
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

/// The values with which the thread starts.
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
        // Timers only: other threads do the reading and writing, so the runtime opens no file descriptors in the daemon
        // and handles no signals.
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = loaded.send(Err(LoadError::Thread(error)));
                return;
            }
        };
        runtime.block_on(async {
            let mut core = Core::new(kind, daemon, inbox, request_timeout);
            core.ticks.calls().set_thread();
            let result = core.load(&plugins);
            let failed = result.is_err();
            let _ = loaded.send(result);
            if !failed {
                core.serve(receiver).await;
            }
        });
        // Don't wait for blocking work that is still running: it would keep this thread from ending.
        runtime.shutdown_background();
    }
}
