//! A configuration to try, and its name in reports.

use std::path::PathBuf;

use jobtap_daemon::daemon::config::{ConfigError, Source};
use serde_json::Value;

/// A configuration to try.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Its name in reports.
    pub name: String,
    /// The configuration of the instance.
    pub config: Value,
    /// The directory of its file.
    pub directory: Option<PathBuf>,
}

impl Policy {
    /// Reads a policy from files, directories and settings, as `jobtap start` reads its configuration.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(paths: &[PathBuf], settings: &[String]) -> Result<Self, ConfigError> {
        let source = Source::new(paths, settings.to_vec())?;
        let config = source.read()?;
        Ok(Self { name: Self::name_of(paths, settings), config, directory: source.directory() })
    }

    /// The name of a policy in reports: its files and settings.
    pub fn name_of(paths: &[PathBuf], settings: &[String]) -> String {
        let stem = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            stem.to_string_lossy().into_owned()
        };
        let names: Vec<String> = paths.iter().map(stem).chain(settings.iter().cloned()).collect();
        if names.is_empty() { "default".to_owned() } else { names.join(" ") }
    }
}
