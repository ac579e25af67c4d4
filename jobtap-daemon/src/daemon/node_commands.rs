//! The running commands of an instance of several nodes, by the key that requests for input and signals carry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::exec::nodes::{Command, CommandEnds, FromCommand, ToCommand};
use crate::rpc::uri;

/// How many messages of a command may wait for its client. More output stays with the command.
const MOST_WAITING: usize = 16;

/// Runs a command on the node of a rank.
type Run = dyn Fn(u32, Command, CommandEnds) + Send + Sync;

/// The commands that run now.
pub(super) struct NodeCommands {
    run: Box<Run>,
    /// The manager's address.
    uri: String,
    last: AtomicU64,
    open: Mutex<BTreeMap<u64, Sender<ToCommand>>>,
}

/// A command that runs.
pub(super) struct Running {
    pub(super) key: u64,
    /// What happens to it. It is killed when this is dropped.
    pub(super) happenings: Receiver<FromCommand>,
}

impl NodeCommands {
    /// Commands that are run by this function.
    pub(super) fn new(
        run: impl Fn(u32, Command, CommandEnds) + Send + Sync + 'static,
        uri: &str,
    ) -> Self {
        let (last, open) = Default::default();
        Self { run: Box::new(run), uri: uri.to_owned(), last, open }
    }

    /// Runs a command on the node of a rank.
    pub(super) fn run(&self, rank: u32, mut command: Command) -> Running {
        for name in [uri::VARIABLE, uri::FLUX_VARIABLE] {
            command.env.insert(name.to_owned(), self.uri.clone());
        }
        let (to_client, happenings) = channel(MOST_WAITING);
        let (to_command, from_client) = channel(MOST_WAITING);
        let key = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(key, to_command);
        (self.run)(rank, command, (to_client, from_client));
        Running { key, happenings }
    }

    /// Where messages to a command go, if it runs.
    pub(super) fn sender(&self, key: u64) -> Option<Sender<ToCommand>> {
        self.lock().get(&key).cloned()
    }

    /// Forgets a command that has ended.
    pub(super) fn forget(&self, key: u64) {
        self.lock().remove(&key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Sender<ToCommand>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
