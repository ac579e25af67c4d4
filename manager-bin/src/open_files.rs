//! How many files the manager may have open (RLIMIT_NOFILE), and who gets how many of them: a store
//! that can't open a table ends the manager, so connections and processes must leave it enough.
//!
//! The manager raises its limit as far as it may, and so does the shepherd. What they start gets the
//! limit that the manager found.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stderr;

/// The most that the store has use for.
const TABLES: u64 = 900;
/// More processes at once than any host is better off with.
const PROCESSES: u64 = 1024;
/// Files of a plugin's process: its three streams, and what its end is heard by.
const PER_PROCESS: u64 = 4;
/// For all that has a few: journals, threads, the shepherd, files that are read.
const REST: u64 = 64;

/// The limit of this process, raised as far as it may be, and what it was before.
#[derive(Debug, Clone)]
pub(crate) struct OpenFiles {
    found: Rlimit,
    raised: Rlimit,
}

static LIMIT: OnceLock<OpenFiles> = OnceLock::new();

impl OpenFiles {
    /// Raises the limit on the first call. The limit is the process's, whatever is started in it.
    pub(crate) fn of_this_process() -> &'static Self {
        LIMIT.get_or_init(|| Self::raise(getrlimit(Resource::Nofile)))
    }

    /// Raises the limit of this process, which starts others in the manager's place; `found` is what
    /// the manager [found](Self::found).
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

    /// The limit before it was raised; -1 for none.
    pub(crate) fn found(&self) -> i64 {
        self.found.current.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1)
    }

    /// How many files may be open.
    pub(crate) fn own(&self) -> u64 {
        self.raised.current.unwrap_or(u64::MAX)
    }

    /// Moves a file that stays open to a number that processes don't have, if there is one: a process
    /// is started under its own limit and can be given only files whose numbers are below that.
    pub(crate) fn apart<F: From<OwnedFd> + Into<OwnedFd>>(&self, file: F) -> F {
        let file = file.into();
        let first = self.found.current.and_then(|limit| i32::try_from(limit).ok());
        let moved = first.and_then(|first| fcntl_dupfd_cloexec(&file, first).ok());
        F::from(moved.unwrap_or(file))
    }

    /// Starts a process under the limit that was found. Meanwhile it is the limit of all threads.
    pub(crate) fn lowered<T>(&self, start: impl FnOnce() -> T) -> T {
        let set = |limit: Rlimit| setrlimit(Resource::Nofile, limit);
        let lowered = self.found != self.raised && set(self.found).is_ok();
        let outcome = start();
        // Raising a soft limit to the hard one, which is unchanged, isn't refused.
        if lowered && let Err(error) = set(self.raised) {
            stderr::line(&format!("cannot raise the limit of open files: {error}"));
        }
        outcome
    }

    /// The limit that was found, -1 for none, if it isn't the one in force.
    pub(crate) fn to_lower(&self) -> Option<i64> {
        (self.found != self.raised).then(|| self.found())
    }

    /// Lowers the limit of this process to one that was [found](Self::found) by another.
    pub(crate) fn lower(found: i64) {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Refused only when the hard limit has become lower meanwhile: then there is nothing to lower.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: u64::try_from(found).ok(), maximum });
    }

    /// Tables that the store keeps open. They leave room under the limit that was found, too, which
    /// is in force for a moment when the manager starts its command.
    pub(crate) fn tables(&self) -> usize {
        let found = self.found.current.unwrap_or(u64::MAX);
        count((self.own() / 4).min(found / 4 * 3).clamp(10, TABLES))
    }

    /// Processes of plugins that run at once.
    pub(crate) fn processes(&self) -> usize {
        count((self.own() / (4 * PER_PROCESS)).clamp(1, PROCESSES))
    }

    /// Connections that are served at once.
    pub(crate) fn connections(&self) -> usize {
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

    fn of(own: u64) -> OpenFiles {
        let limit = Rlimit { current: Some(own), maximum: Some(own) };
        OpenFiles { found: limit, raised: limit }
    }

    #[test]
    fn the_usual_limit_serves_hundreds_of_connections_and_a_high_one_has_no_use_for_more() {
        let (usual, high) = (of(1024), of(1 << 20));
        assert_eq!((usual.tables(), usual.processes(), usual.connections()), (256, 64, 448));
        assert_eq!((high.tables(), high.processes()), (900, 1024));
        assert!(high.connections() > 1_000_000);
        assert_eq!(of(u64::MAX).processes(), 1024);
    }

    proptest! {
        #[test]
        fn what_is_given_out_is_there(own in 64u64..1 << 40) {
            let files = of(own);
            let taken = files.tables() + files.processes() * count(PER_PROCESS) + files.connections();
            prop_assert!(taken < count(own), "{files:?}");
        }
    }
}
