//! The attributes of the submitting process that a job inherits. They are a value, so that tests can set
//! them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use super::error::ArgError;
use super::rlimit;

/// The process that submits a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// The environment, without variables that aren't UTF-8: a jobspec can't contain them.
    pub(crate) env: BTreeMap<String, String>,
    /// The soft resource limits by name, in lower case and without `RLIMIT_`; -1 for unlimited.
    pub(crate) rlimits: BTreeMap<String, i64>,
    /// The present time in seconds since the epoch.
    pub(crate) now: f64,
}

impl Caller {
    /// This process.
    ///
    /// # Errors
    /// [`ArgError::File`] if the working directory is unknown.
    pub(crate) fn current() -> Result<Self, ArgError> {
        let cwd = std::env::current_dir().map_err(|error| ArgError::file(".", &error))?;
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Self { cwd, env, rlimits: rlimit::current(), now: now.as_secs_f64() })
    }

    /// The path of a file on the command line, relative to the working directory. `~/` stands for the home
    /// directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), self.env.get("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => self.cwd.join(name),
        }
    }
}
