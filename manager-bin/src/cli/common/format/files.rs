//! The configuration files in which users of Flux keep formats and other preferences of a command:
//! `flux-COMMAND.toml`, `.yaml` or `.json` in the directories of the XDG base directory specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::common::message::CliError;

/// A configuration file.
pub(crate) struct ConfigFile {
    path: PathBuf,
    pub(crate) config: Value,
}

impl ConfigFile {
    /// The files of a command in the order in which they are read: later ones override.
    ///
    /// # Errors
    /// A file is malformed; the text names it.
    pub(crate) fn all(
        command: &str,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Vec<Self>, CliError> {
        let mut files = Vec::new();
        for directory in directories(&variable) {
            for extension in ["toml", "yaml", "json"] {
                let path = directory.join(format!("flux-{command}.{extension}"));
                // Files are optional, and those of other users may be unreadable.
                let Ok(text) = std::fs::read_to_string(&path) else {
                    continue;
                };
                let file = |config| Self { path: path.clone(), config };
                let refuse = |error: &dyn std::fmt::Display| file(Value::Null).refuse(error);
                files.push(file(match extension {
                    "toml" => toml::from_str(&text).map_err(|error| refuse(&error))?,
                    "yaml" => serde_norway::from_str(&text).map_err(|error| refuse(&error))?,
                    _ => serde_json::from_str(&text).map_err(|error| refuse(&error))?,
                }));
            }
        }
        Ok(files)
    }

    /// The error for a mistake in the file.
    pub(crate) fn refuse(&self, error: &dyn std::fmt::Display) -> CliError {
        CliError::failure(format!("{}: {error}", self.path.display()))
    }
}

fn directories(variable: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    let system = get("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    let mut directories: Vec<PathBuf> = std::env::split_paths(&system).collect();
    directories.reverse();
    let home = || get("HOME").map(|home| Path::new(&home).join(".config"));
    directories.extend(get("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home));
    directories.iter().map(|directory| directory.join("flux")).collect()
}
