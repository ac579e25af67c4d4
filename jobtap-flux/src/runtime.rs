//! The thread on which asynchronous handlers run.
//!
//! Each loaded file has one, with a tokio runtime of its own. A handler that blocks it delays the other
//! asynchronous handlers of the same file, but not the broker.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobtap_core::host::{BlockingCommand, PluginFuture, PluginKey, ProcessCommand};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::process::Processes;

/// How long an unload waits for the thread. If a future blocks longer, the thread is left behind, and the file stays
/// in memory.
const STOP: Duration = Duration::from_secs(2);

/// Runs the plugins' futures, processes and blocking work outside the callbacks.
///
/// In a broker this is a runtime of the loaded file, on a thread of its own. In the test kit everything runs on
/// the test's thread.
pub trait Workers {
    /// Runs a future.
    fn spawn(&self, future: PluginFuture);

    /// Runs or signals a process.
    fn process(&self, plugin: PluginKey, command: ProcessCommand);

    /// Runs blocking work on a thread of its own, or drops a plugin's work that hasn't begun.
    fn blocking(&self, plugin: PluginKey, command: BlockingCommand);

    /// Drops all futures and ends the workers. Returns whether they have ended.
    fn stop(&self) -> bool;
}

/// The runtime. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    processes: Processes,
    /// The plugins that have been removed, whose blocking work is dropped if it hasn't begun.
    dropped: Arc<Mutex<HashSet<PluginKey>>>,
    stop: Mutex<Option<(oneshot::Sender<()>, mpsc::Receiver<()>)>>,
}

impl Runtime {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (ended, end) = mpsc::channel();
        std::thread::Builder::new().name("jobtap".to_owned()).spawn(move || {
            // An error means that the sender was dropped, which is also a reason to stop.
            let _ = runtime.block_on(stopped);
            // Drops all futures, but doesn't wait for blocking work on other threads.
            runtime.shutdown_background();
            // Fails if the unload doesn't wait any more.
            let _ = ended.send(());
        })?;
        Ok(Self {
            handle,
            processes: Processes::default(),
            dropped: Arc::default(),
            stop: Mutex::new(Some((stop, end))),
        })
    }

    #[cfg(test)]
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }
}

impl Workers for Runtime {
    fn spawn(&self, future: PluginFuture) {
        self.handle.spawn(future);
    }

    fn process(&self, plugin: PluginKey, command: ProcessCommand) {
        if let Some(work) = self.processes.command(plugin, command) {
            self.handle.spawn(work);
        }
    }

    fn blocking(&self, plugin: PluginKey, command: BlockingCommand) {
        match command {
            BlockingCommand::DropAll => {
                self.dropped.lock().unwrap_or_else(PoisonError::into_inner).insert(plugin);
            }
            BlockingCommand::Run(work) => {
                let dropped = Arc::clone(&self.dropped);
                self.handle.spawn_blocking(move || {
                    let set = dropped.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_dropped = set.contains(&plugin);
                    drop(set);
                    if work.awaited().holds() && !is_dropped {
                        work.run();
                    }
                });
            }
        }
    }

    /// Waits for the thread, but at most for [`STOP`].
    fn stop(&self) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((stop, end)) = stop else { return true };
        // Fails if the thread has already ended.
        let _ = stop.send(());
        end.recv_timeout(STOP).is_ok()
    }
}

/// A future that runs a process to its end.
pub(crate) type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
