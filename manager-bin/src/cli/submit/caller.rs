//! What a job inherits from the process that submits it. It is a value, so that tests can set it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use super::error::ArgError;
use super::rlimit;

/// What a command knows about the place it was called from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// Environment. Variables that are no UTF-8 are left out: a jobspec can't hold them.
    pub(crate) env: BTreeMap<String, String>,
    /// Soft resource limits by their names in lower case without `RLIMIT_`; -1 for unlimited.
    pub(crate) rlimits: BTreeMap<String, i64>,
    /// Seconds since the epoch.
    pub(crate) now: f64,
}

impl Caller {
    /// The caller that is this process.
    ///
    /// # Errors
    /// [`ArgError::File`] when the working directory can't be found out.
    pub(crate) fn current() -> Result<Self, ArgError> {
        let cwd = std::env::current_dir().map_err(|error| ArgError::file(".", &error))?;
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Self { cwd, env, rlimits: rlimit::current(), now: now.as_secs_f64() })
    }

    /// A file named on the command line: relative to the working directory, `~/` to the home
    /// directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), self.env.get("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => self.cwd.join(name),
        }
    }
}
