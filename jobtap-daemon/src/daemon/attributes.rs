//! The attributes of the manager, by the names of Flux's broker attributes, for scripts that read them with `getattr`.
//! Most are fixed while the manager runs. Those of the user can be added, and stay until the process ends.

mod brokers;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::Level;

use super::log::Log;

/// The attribute for the severity of log lines on standard error, from 0 (only errors) to 7 (all).
pub const STDERR_LEVEL: &str = "log-stderr-level";

/// The attribute for the ids of the jobs that enclose the manager, outermost first; `/` if there are none.
pub const JOBID_PATH: &str = "jobid-path";

/// The attribute for the path of the configuration, if there is one.
pub const CONFIG_PATH: &str = "config.path";

/// The attribute for the hosts of the ranks, as PMI writes a map of tasks to nodes.
pub const HOSTS_OF_RANKS: &str = "broker.mapping";

/// The prefix of the names of the user's own attributes, as in Flux.
const OWN: &str = "test.";

/// Returns true for an attribute of the user: one whose name begins with `test.`.
pub fn is_of_user(name: &str) -> bool {
    name.starts_with(OWN)
}

/// Checks whether `start` may set an attribute that only Flux's brokers have.
///
/// # Errors
/// Its name is unknown to Flux too, or Flux doesn't let it be set.
pub fn check_of_brokers(name: &str) -> Result<(), StartError> {
    match (brokers::TUNING.contains(&name), brokers::FIXED.contains(&name)) {
        (true, _) => Ok(()),
        (false, true) => Err(StartError::Fixed),
        (false, false) => Err(StartError::Unknown),
    }
}

/// Why `start` can't set an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It states a fact about the broker or the manager, such as its rank.
    #[error("attribute may not be set on the command line")]
    Fixed,
    /// Neither this manager nor Flux has it.
    #[error("unknown attribute")]
    Unknown,
}

/// Why an attribute was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// It is fixed while the manager runs.
    #[error("attribute may not be updated")]
    ReadOnly,
    /// Neither this manager nor Flux has it, and it isn't one of the user's.
    #[error("unknown attribute")]
    Unknown,
    /// The value of `log-stderr-level` is not a level.
    #[error("use a number from 0 to 7")]
    Level,
}

impl AttributeError {
    /// Returns true if no value would have been accepted.
    pub fn is_read_only(&self) -> bool {
        *self == Self::ReadOnly
    }
}

/// All attributes. They survive a restart of the manager within its process.
#[derive(Debug, Default)]
pub struct Attributes {
    own: BTreeMap<&'static str, String>,
    added: Mutex<BTreeMap<String, String>>,
}

impl Attributes {
    /// The attributes of a manager.
    pub fn new(own: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { own: own.into_iter().collect(), added: Mutex::default() }
    }

    /// Adds attributes of the user.
    #[must_use]
    pub fn with_users(self, attributes: impl IntoIterator<Item = (String, String)>) -> Self {
        self.added().extend(attributes);
        self
    }

    /// Sets [`STDERR_LEVEL`] to the level at the start.
    #[must_use]
    pub fn with_stderr_level(self, level: Level) -> Self {
        let severity = match level {
            Level::Error => "3",
            Level::Warning => "4",
            Level::Info => "6",
            Level::Debug => "7",
        };
        self.added().insert(STDERR_LEVEL.to_owned(), severity.to_owned());
        self
    }

    /// Returns a copy with some of the manager's attributes added or replaced.
    pub(super) fn with(&self, own: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut all = self.own.clone();
        all.extend(own);
        Self { own: all, added: Mutex::new(self.added().clone()) }
    }

    /// The value of an attribute.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.own.get(name).cloned().or_else(|| self.added().get(name).cloned())
    }

    /// The names of all attributes, in byte order.
    pub(super) fn names(&self) -> Vec<String> {
        let added = self.added();
        let mut names: Vec<String> = self.own.keys().map(|name| (*name).to_owned()).collect();
        names.extend(added.keys().cloned());
        names.sort_unstable();
        names
    }

    /// Sets an attribute of the user or [`STDERR_LEVEL`], which also sets the level of `log`.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub(super) fn set(&self, name: &str, value: &str, log: &Log) -> Result<(), AttributeError> {
        if name == STDERR_LEVEL {
            log.set_stderr_level(stderr_level(value).ok_or(AttributeError::Level)?);
        } else if self.own.contains_key(name) || check_of_brokers(name) != Err(StartError::Unknown)
        {
            return Err(AttributeError::ReadOnly);
        } else if !is_of_user(name) {
            return Err(AttributeError::Unknown);
        }
        self.added().insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn added(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The level for a value of [`STDERR_LEVEL`], which is a severity of syslog(3).
pub fn stderr_level(value: &str) -> Option<Level> {
    match value.parse() {
        Ok(0u8..=3) => Some(Level::Error),
        Ok(4) => Some(Level::Warning),
        Ok(5..=6) => Some(Level::Info),
        Ok(7) => Some(Level::Debug),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_attributes_are_fixed_and_others_survive_a_restart() {
        let log = Log::new(Level::Error);
        let first = Attributes::new([("size", "4".to_owned())]);
        assert_eq!(first.set("size", "5", &log), Err(AttributeError::ReadOnly));
        assert_eq!(first.set("tbon.topo", "5", &log), Err(AttributeError::ReadOnly));
        for unknown in ["", "site.color", "test"] {
            assert_eq!(first.set(unknown, "5", &log), Err(AttributeError::Unknown), "{unknown}");
        }
        first.set("test.color", "red", &log).unwrap();
        let next = first.with([("size", "8".to_owned())]);
        assert_eq!(next.names(), ["size", "test.color"]);
        assert_eq!(next.get("size").as_deref(), Some("8"));
        assert_eq!(next.get("test.color").as_deref(), Some("red"));
        assert_eq!(next.get("nosuch"), None);
    }

    #[test]
    fn attributes_of_brokers_can_be_set_at_the_start_unless_they_are_facts() {
        assert_eq!(check_of_brokers("tbon.fanout"), Ok(()));
        assert_eq!(check_of_brokers("rank"), Err(StartError::Fixed));
        assert_eq!(check_of_brokers("tbon.fan"), Err(StartError::Unknown));
        assert!(brokers::TUNING.is_sorted() && brokers::FIXED.is_sorted());
    }

    #[test]
    fn the_level_of_stderr_is_a_severity_of_syslog() {
        let log = Log::new(Level::Error);
        for level in [Level::Error, Level::Warning, Level::Info, Level::Debug] {
            let attributes = Attributes::default().with_stderr_level(level);
            let shown = attributes.get(STDERR_LEVEL).unwrap();
            assert_eq!(stderr_level(&shown), Some(level));
        }
        let attributes = Attributes::default().with_stderr_level(Level::Error);
        assert_eq!(attributes.set(STDERR_LEVEL, "8", &log), Err(AttributeError::Level));
        attributes.set(STDERR_LEVEL, "7", &log).unwrap();
        assert_eq!(attributes.get(STDERR_LEVEL).as_deref(), Some("7"));
        assert_eq!(log.stderr_level(), Level::Debug);
    }
}
