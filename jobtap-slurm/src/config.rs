//! `jobtap.toml`, the configuration of the plugins, beside slurm.conf.
//!
//! ```toml
//! [plugins.fairshare]     # what `Conf<C>` of this plugin reads
//! half-life = "7d"
//!
//! [slurm]                 # of the adapter
//! request-timeout = "8s"  # how long slurmctld waits for the plugins' answer to a request
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jobtap_core::job::Fsd;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The name of the file.
pub const FILE: &str = "jobtap.toml";

/// How long slurmctld waits for an answer to a request by default. A command of the user's gives up after
/// `MessageTimeout`, by default 10 s, and would not show the message of a refusal that comes later.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// What the file says.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// All of it; an empty table if there is no file.
    pub(crate) whole: Value,
    /// The directory of the file.
    pub(crate) directory: PathBuf,
    /// How long slurmctld waits for an answer.
    pub(crate) request_timeout: Duration,
}

/// The table `[slurm]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Settings {
    request_timeout: Option<Fsd>,
}

impl Config {
    /// Reads the file. One that isn't there is an empty one, since plugins need no configuration.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let place = |text: String| format!("{}: {text}", file.display());
        let whole = parse(&text).map_err(place)?;
        let settings = match whole.get("slurm") {
            None => Settings::default(),
            Some(table) => {
                Settings::deserialize(table).map_err(|error| place(format!("[slurm]: {error}")))?
            }
        };
        let request_timeout = match settings.request_timeout {
            None => REQUEST_TIMEOUT,
            Some(limit) => Duration::try_from_secs_f64(limit.as_secs())
                .ok()
                .filter(|limit| !limit.is_zero())
                .ok_or_else(|| {
                    place("[slurm]: request-timeout must be longer than 0 and not infinite".into())
                })?,
        };
        let directory = file.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { whole, directory, request_timeout })
    }

    /// The table of a plugin; an empty one if the file has no such table.
    pub(crate) fn plugin(&self, name: &str) -> Result<Value, String> {
        match self.whole.get("plugins").and_then(|plugins| plugins.get(name)) {
            None => Ok(Value::Object(Map::new())),
            Some(table @ Value::Object(_)) => Ok(table.clone()),
            Some(_) => Err(format!("[plugins.{name}] must be a table")),
        }
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        format!("line {line}: {}", error.message())
    })?;
    Ok(to_json(toml::Value::Table(table)))
}

/// A TOML value as JSON. A date becomes its text, and a number that JSON does not have becomes null.
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

    fn read(text: &str) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE);
        std::fs::write(&file, text).unwrap();
        let place = file.display().to_string();
        Config::read(&file).map_err(|error| error.replace(&place, "F"))
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
        assert!(read("a = 1\nb = = 2").unwrap_err().starts_with("F: line 2: "));
        let error = read("[slurm]\nrequest-timout = \"1s\"").unwrap_err();
        assert!(error.starts_with("F: [slurm]: unknown field `request-timout`"), "{error}");
        let error = read("[slurm]\nrequest-timeout = \"0\"").unwrap_err();
        assert_eq!(error, "F: [slurm]: request-timeout must be longer than 0 and not infinite");
        let config = read("[plugins]\nlimits = 3").unwrap();
        assert_eq!(config.plugin("limits").unwrap_err(), "[plugins.limits] must be a table");
    }
}
