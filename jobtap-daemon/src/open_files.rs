//! The limit of open files (RLIMIT_NOFILE), and its division among the parts of the manager. A store that
//! can't open a table ends the manager, so connections and processes must leave it enough files.
//!
//! The manager and the shepherd raise their soft limit to the hard limit. The processes that they start get
//! the limit with which the manager was started.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stderr;

/// The maximum number of open tables that the store can make use of.
const TABLES: u64 = 900;
/// The maximum number of plugin processes at once; more would only slow a host down.
const PROCESSES: u64 = 1024;
/// The files of a plugin's process: its three standard streams, and one that shows its end.
const PER_PROCESS: u64 = 4;
/// The maximum number of commands of clients that run on nodes at once.
const COMMANDS: u64 = 1024;
/// The files of a command on the manager's own node: its three standard streams, and one that shows its end. One on
/// another node has only a connection.
const PER_COMMAND: u64 = 4;
/// The maximum number of connections to the port of an instance that haven't said yet who they are.
const STRANGERS: u64 = 256;
/// The files of a client on another node: two connections that are joined, and that to the manager's socket.
const PER_REMOTE_CLIENT: u64 = 3;
/// Files for all other parts: write-ahead logs, threads, the shepherd, files that are read.
const REST: u64 = 64;

/// The limit of this process, raised to the hard limit, and its value before.
#[derive(Debug, Clone)]
pub struct OpenFiles {
    found: Rlimit,
    raised: Rlimit,
}

static LIMIT: OnceLock<OpenFiles> = OnceLock::new();

impl OpenFiles {
    /// Raises the limit on the first call. The limit applies to the whole process, so there is one value for
    /// all instances in it.
    pub fn of_this_process() -> &'static Self {
        LIMIT.get_or_init(|| Self::raise(getrlimit(Resource::Nofile)))
    }

    /// Raises the limit of this process, which starts others in the manager's place; `found` is the limit
    /// that the manager [found](Self::found).
    pub(crate) fn in_place_of_the_manager(found: i64) -> &'static Self {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        LIMIT.get_or_init(|| Self::raise(Rlimit { current: u64::try_from(found).ok(), maximum }))
    }

    fn raise(found: Rlimit) -> Self {
        let raised = Rlimit { current: found.maximum, maximum: found.maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => Self { found, raised },
            Err(_) => Self { found, raised: found },
        }
    }

    /// The limit before it was raised; -1 for no limit.
    pub(crate) fn found(&self) -> i64 {
        self.found.current.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1)
    }

    /// The number of files that may be open.
    pub fn own(&self) -> u64 {
        self.raised.current.unwrap_or(u64::MAX)
    }

    /// Moves a long-lived file to a descriptor number above the limit of started processes, if there is such a
    /// limit: a process is started under its own limit, and numbers below that limit are needed for the files
    /// that are passed to it. Half of these numbers are enough, so a file with a number in the lower half keeps
    /// it.
    pub(crate) fn apart<F: From<OwnedFd> + Into<OwnedFd>>(&self, file: F) -> F {
        let file = file.into();
        let first = self.found.current.and_then(|limit| i32::try_from(limit).ok());
        let first = first.filter(|first| file.as_raw_fd() >= first / 2);
        let moved = first.and_then(|first| fcntl_dupfd_cloexec(&file, first).ok());
        F::from(moved.unwrap_or(file))
    }

    /// Starts a process under the limit that was found. Call only in a process with a single thread: meanwhile that limit
    /// applies to all of them, and another one that opens a file could fail.
    pub(crate) fn lowered<T>(&self, start: impl FnOnce() -> T) -> T {
        let set = |limit: Rlimit| setrlimit(Resource::Nofile, limit);
        let lowered = self.found != self.raised && set(self.found).is_ok();
        let outcome = start();
        // This can't fail: the soft limit is raised to the unchanged hard limit.
        if lowered && let Err(error) = set(self.raised) {
            stderr::line(&format!("cannot raise the limit of open files: {error}"));
        }
        outcome
    }

    /// The limit that was found, if it differs from the current one: a started process gets it.
    pub(crate) fn of_started(&self) -> Option<(Resource, Rlimit)> {
        (self.found != self.raised).then_some((Resource::Nofile, self.found))
    }

    /// The limit that was found, -1 for no limit, if it differs from the current one.
    pub fn to_lower(&self) -> Option<i64> {
        (self.found != self.raised).then(|| self.found())
    }

    /// Lowers the limit of this process to one that another process [found](Self::found).
    pub(crate) fn lower(found: i64) {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Fails only if the hard limit was lowered meanwhile. Then there is nothing to do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: u64::try_from(found).ok(), maximum });
    }

    /// The number of tables that the store may have open.
    pub(crate) fn tables(&self) -> usize {
        count((self.own() / 4).clamp(10, TABLES))
    }

    /// The number of plugin processes that may run at once.
    pub(crate) fn processes(&self) -> usize {
        count((self.own() / (4 * PER_PROCESS)).clamp(1, PROCESSES))
    }

    /// The number of commands of clients that may run on nodes at once.
    pub(crate) fn commands(&self) -> usize {
        count((self.own() / (8 * PER_COMMAND)).clamp(1, COMMANDS))
    }

    /// The number of connections to the port of an instance that may not have said yet who they are.
    pub(crate) fn strangers(&self) -> usize {
        count((self.own() / 16).clamp(1, STRANGERS))
    }

    /// The number of connections that are served at once by the manager of this many nodes, whose clients may all be on
    /// other nodes.
    pub(crate) fn connections_beside(&self, nodes: u32) -> usize {
        let commands = self.commands() * count(PER_COMMAND);
        let others = count(nodes.into()) + commands + self.strangers();
        (self.connections().saturating_sub(others) / count(PER_REMOTE_CLIENT)).max(1)
    }

    /// The number of connections that are served at once.
    pub fn connections(&self) -> usize {
        let others = [self.tables(), self.processes() * count(PER_PROCESS)];
        let rest = count(self.own().min(8 * REST) / 8);
        count(self.own()).saturating_sub(others.iter().sum::<usize>() + rest).max(1)
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_limit(own: u64) -> OpenFiles {
        let limit = Rlimit { current: Some(own), maximum: Some(own) };
        OpenFiles { found: limit, raised: limit }
    }

    #[test]
    fn the_usual_limit_serves_hundreds_of_connections() {
        let (usual, high) = (with_limit(1024), with_limit(1 << 20));
        assert_eq!((usual.tables(), usual.processes(), usual.connections()), (256, 64, 448));
        assert_eq!((high.tables(), high.processes()), (900, 1024));
        assert!(high.connections() > 1_000_000);
        assert_eq!(with_limit(u64::MAX).processes(), 1024);
        assert_eq!(
            (usual.commands(), usual.strangers(), usual.connections_beside(4)),
            (32, 64, 84)
        );
        assert_eq!((high.commands(), high.strangers()), (1024, 256));
    }

    proptest! {
        #[test]
        fn the_parts_do_not_exceed_the_limit(own in 64u64..1 << 40) {
            let files = with_limit(own);
            let taken = files.tables() + files.processes() * count(PER_PROCESS) + files.connections();
            prop_assert!(taken < count(own), "{files:?}");
            let nodes = u32::try_from(own / 64).unwrap_or(u32::MAX);
            let connections = files.connections_beside(nodes) * count(PER_REMOTE_CLIENT);
            let commands = files.commands() * count(PER_COMMAND);
            let of_nodes = count(nodes.into()) + connections + commands + files.strangers();
            prop_assert!(of_nodes <= files.connections(), "{files:?}");
        }
    }
}
