//! The attributes of the manager, by the names of Flux's broker attributes, for scripts that ask for them with
//! `getattr`. Most are fixed while the manager runs. Others can be added, and stay until the process ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::Level;

use super::log::Log;

/// The attribute for the severity of log lines on standard error, from 0 (only errors) to 7 (all).
pub const STDERR_LEVEL: &str = "log-stderr-level";

/// The attribute for the ids of the jobs that enclose the manager, from the outermost: `/` where none does.
pub const JOBID_PATH: &str = "jobid-path";

/// Why an attribute was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// It is fixed while the manager runs.
    #[error("attribute may not be updated")]
    ReadOnly,
    /// It has no name.
    #[error("an attribute needs a name")]
    NoName,
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

    /// These attributes, with [`STDERR_LEVEL`] as it is at the start.
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

    /// These attributes with some of the manager's added or replaced.
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

    /// Sets an attribute that is not fixed. The level of standard error changes that of `log`.
    ///
    /// # Errors
    /// [`AttributeError`].
    pub(super) fn set(&self, name: &str, value: &str, log: &Log) -> Result<(), AttributeError> {
        if name.is_empty() {
            return Err(AttributeError::NoName);
        }
        if self.own.contains_key(name) {
            return Err(AttributeError::ReadOnly);
        }
        if name == STDERR_LEVEL {
            log.set_stderr_level(stderr_level(value).ok_or(AttributeError::Level)?);
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
        assert_eq!(first.set("", "5", &log), Err(AttributeError::NoName));
        first.set("site.color", "red", &log).unwrap();
        let next = first.with([("size", "8".to_owned())]);
        assert_eq!(next.names(), ["site.color", "size"]);
        assert_eq!(next.get("size").as_deref(), Some("8"));
        assert_eq!(next.get("site.color").as_deref(), Some("red"));
        assert_eq!(next.get("nosuch"), None);
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
