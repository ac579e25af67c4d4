//! `jobtap.toml`, the configuration of the plugins, beside slurm.conf.
//!
//! ```toml
//! [plugins.fairshare]     # what `Conf<C>` of this plugin reads
//! half-life = "7d"
//!
//! [slurm]                 # of the adapter
//! request-timeout = "8s"  # how long slurmctld waits for the plugins' answer to a request
//! ```

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jobtap_core::host::SetupError;
use jobtap_core::job::Fsd;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The name of the file.
pub const FILE: &str = "jobtap.toml";

/// How long slurmctld waits for the plugins' answer to a request by default. The user's command gives up after
/// `MessageTimeout`, by default 10 s, and wouldn't show the message of a refusal that comes later.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// The content of the file.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The whole file; an empty table if there is no file.
    pub(crate) whole: Value,
    /// The directory of the file.
    pub(crate) directory: PathBuf,
    /// How long slurmctld waits for the plugins' answer.
    pub(crate) request_timeout: Duration,
}

/// The table `[slurm]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Settings {
    request_timeout: Option<Fsd>,
}

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: ConfigFault,
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The table `[slurm]` has an unknown key, or a value of a wrong type.
    #[error("[slurm]: {0}")]
    Settings(#[from] serde_json::Error),
    /// `request-timeout` can't be waited for.
    #[error("[slurm]: request-timeout must be longer than 0 and not infinite")]
    RequestTimeout,
}

impl Config {
    /// Reads the file. A missing file counts as an empty one, since the plugins may need no configuration.
    pub(crate) fn read(file: &Path) -> Result<Self, ConfigError> {
        Self::of_file(file).map_err(|fault| ConfigError { file: file.to_owned(), fault })
    }

    fn of_file(file: &Path) -> Result<Self, ConfigFault> {
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let whole = parse(&text)?;
        let settings = whole.get("slurm").map(Settings::deserialize).transpose()?;
        let request_timeout = match settings.unwrap_or_default().request_timeout {
            None => REQUEST_TIMEOUT,
            Some(limit) => Duration::try_from_secs_f64(limit.as_secs())
                .ok()
                .filter(|limit| !limit.is_zero())
                .ok_or(ConfigFault::RequestTimeout)?,
        };
        let directory = file.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { whole, directory, request_timeout })
    }

    /// Returns the table of a plugin, which is empty if the file has no such table.
    pub(crate) fn plugin(&self, name: &str) -> Result<Value, SetupError> {
        match self.whole.get("plugins").and_then(|plugins| plugins.get(name)) {
            None => Ok(Value::Object(Map::new())),
            Some(table @ Value::Object(_)) => Ok(table.clone()),
            Some(_) => Err(SetupError::NoTable(name.to_owned())),
        }
    }
}

fn parse(text: &str) -> Result<Value, ConfigFault> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        ConfigFault::Syntax { line, message: error.message().to_owned() }
    })?;
    Ok(to_json(toml::Value::Table(table)))
}

/// Converts TOML to JSON. A date becomes a string, and a number that JSON can't represent becomes null.
fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => items.into_iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, to_json(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE);
        std::fs::write(&file, text).unwrap();
        Config::read(&file).map_err(|error| ConfigError { file: "F".into(), ..error })
    }

    #[test]
    fn a_missing_file_is_an_empty_one() {
        let config = Config::read(Path::new("/nonexistent/jobtap.toml")).unwrap();
        assert_eq!(config.plugin("limits").unwrap(), serde_json::json!({}));
        assert_eq!(config.request_timeout, REQUEST_TIMEOUT);
        assert_eq!(config.directory, Path::new("/nonexistent"));
    }

    #[test]
    fn a_plugin_has_its_own_table() {
        let config =
            read("[plugins.limits]\nmost = 3\n[slurm]\nrequest-timeout = \"500ms\"").unwrap();
        assert_eq!(config.plugin("limits").unwrap(), serde_json::json!({"most": 3}));
        assert_eq!(config.request_timeout, Duration::from_millis(500));
    }

    #[test]
    fn an_error_names_the_file_and_the_place() {
        let refusal = |text: &str| read(text).unwrap_err().to_string();
        assert!(refusal("a = 1\nb = = 2").starts_with("F: line 2: "));
        let error = refusal("[slurm]\nrequest-timout = \"1s\"");
        assert!(error.starts_with("F: [slurm]: unknown field `request-timout`"), "{error}");
        let error = refusal("[slurm]\nrequest-timeout = \"0\"");
        assert_eq!(error, "F: [slurm]: request-timeout must be longer than 0 and not infinite");
        let config = read("[plugins]\nlimits = 3").unwrap();
        let error = config.plugin("limits").unwrap_err().to_string();
        assert_eq!(error, "[plugins.limits] must be a table");
    }
}
