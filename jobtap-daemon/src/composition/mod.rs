//! What a binary made by `jobtap build` was made of: its plugins, its manifest, its lock.
//!
//! The binary contains it as a text with a checksum, so that it can also be read from the file of a
//! manager that can't be run on this machine.

pub mod digest;
mod host;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use host::Host;

/// The mark at which the text in a binary begins. Its length and its checksum follow.
const MARK: &str = "JOBTAP-COMPOSITION-1 ";

/// The crates of the SDK, with which each manager is made.
pub const SDK_CRATES: &[&str] = &[
    "jobtap-builder",
    "jobtap-builtins",
    "jobtap-core",
    "jobtap-daemon",
    "jobtap-domain",
    "jobtap-engine",
    "jobtap-flux",
    "jobtap-laboratory",
    "jobtap-macros",
    "jobtap-manager",
    "jobtap-pmi",
    "jobtap-sdk",
    "jobtap-slurm",
    "jobtap-topics",
];

/// Why it isn't known what a manager was made of.
#[derive(Debug, thiserror::Error)]
pub enum CompositionError {
    /// A file that can't be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A file that isn't a manager made by `jobtap build`.
    #[error("{}: `jobtap build` has not made this file: it names no plugins", .0.display())]
    NotBuilt(PathBuf),
    /// The text in this process isn't one that `jobtap build` of this version made.
    #[error("this manager's list of plugins is damaged: build it again")]
    Damaged,
}

/// What a manager was made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Composition {
    /// The binary's name.
    pub name: String,
    /// The binary's version.
    pub version: String,
    /// The host that loads it; `None` for a manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The version of the Slurm that loads it, if that is its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<String>,
    /// The SDK's version.
    pub sdk: String,
    /// SHA-256 over the SDK's sources.
    pub sdk_checksum: String,
    /// The target triple.
    pub target: String,
    /// `release` or `quick`.
    pub profile: String,
    /// The compiler.
    pub rustc: String,
    /// The crates whose plugins it has.
    pub crates: Vec<CrateInfo>,
    /// Its plugins, according to their source.
    #[serde(default)]
    pub plugins: Vec<PluginInfo>,
    /// Its plugins in the order in which they are called.
    pub order: Vec<String>,
    /// The plugins that it must have. The others are under a `#[cfg]` that only the compiler can evaluate.
    pub required: Vec<String>,
    /// The schedulers of its crates that it must have.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// The configuration from the manifest, which the site's files override.
    pub config: Value,
    /// The manifest's text.
    pub manifest: String,
    /// The text of the lock.
    pub lock: String,
    /// The bill of materials, CycloneDX.
    pub sbom: Value,
}

/// A plugin, according to its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// Its name.
    pub name: String,
    /// The crate that contains it.
    #[serde(rename = "crate")]
    pub crate_name: String,
    /// The topics of its handlers, sorted.
    pub topics: Vec<String>,
}

/// A crate with plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its source: `sdk`, `path+..`, `directory+..`, or the registry as cargo names it.
    pub source: String,
    /// SHA-256 from the registry's index, or over the files of its directory.
    pub checksum: String,
}

impl Composition {
    /// Returns the text that goes into the binary.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let json = serde_json::to_string(self)?;
        let checksum = digest::of_bytes(json.as_bytes());
        Ok(format!("{MARK}{} {checksum}\n{json}", json.len()))
    }

    /// Reads the text at the beginning of these bytes.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MARK.as_bytes())?;
        // The length and the checksum have at most this many digits.
        let head = rest.get(..90.min(rest.len()))?;
        let end = head.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(head.get(..end)?).ok()?;
        let (length, sum) = head.split_once(' ')?;
        let start = end.checked_add(1)?;
        let json = rest.get(start..start.checked_add(length.parse().ok()?)?)?;
        if digest::of_bytes(json) != sum {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    /// Reads it from the file of a manager.
    ///
    /// # Errors
    /// When the file can't be read or isn't a manager made by `jobtap build`.
    pub fn of_binary(file: &Path) -> Result<Self, CompositionError> {
        let path = file.to_path_buf();
        match std::fs::read(file) {
            Ok(bytes) => Self::search(&bytes).ok_or(CompositionError::NotBuilt(path)),
            Err(reason) => Err(CompositionError::File { path, reason }),
        }
    }

    fn search(bytes: &[u8]) -> Option<Self> {
        let mark = MARK.as_bytes();
        let first = *mark.first()?;
        let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first);
        // The mark alone is also a constant of this code, so each manager contains it once more.
        starts.filter_map(|(at, _)| Self::from_bytes(bytes.get(at..)?)).next()
    }

    /// Returns the source of a crate of its plugins or of its SDK, and its checksum.
    pub fn origin(&self, crate_name: &str) -> Option<(&str, &str)> {
        match self.crate_info(crate_name) {
            Some(info) => Some((&info.source, &info.checksum)),
            None if SDK_CRATES.contains(&crate_name) => Some(("sdk", &self.sdk_checksum)),
            None => None,
        }
    }

    /// Returns a crate by its name.
    pub fn crate_info(&self, name: &str) -> Option<&CrateInfo> {
        self.crates.iter().find(|info| info.name == name)
    }
}

static OWN: OnceLock<Composition> = OnceLock::new();

/// Declares what this process was made of. The generated `main` calls it first.
///
/// # Errors
/// When the text isn't one that `jobtap build` of this version made.
pub fn declare(text: &str) -> Result<(), CompositionError> {
    let composition = Composition::from_bytes(text.as_bytes()).ok_or(CompositionError::Damaged)?;
    // It is called once; a second call would be ignored.
    let _ = OWN.set(composition);
    Ok(())
}

/// Returns what this process was made of, if `jobtap build` made it.
pub fn own() -> Option<&'static Composition> {
    OWN.get()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn sample(manifest: &str) -> Composition {
        Composition {
            name: "site".into(),
            version: "1.0.0".into(),
            host: None,
            slurm: None,
            sdk: "0.1.0".into(),
            sdk_checksum: "00".into(),
            target: "x86_64-unknown-linux-gnu".into(),
            profile: "quick".into(),
            rustc: "rustc 1.95.0".into(),
            crates: vec![CrateInfo {
                name: "deadline".into(),
                version: "0.1.0".into(),
                source: "path+../deadline".into(),
                checksum: "11".into(),
            }],
            plugins: vec![PluginInfo {
                name: "deadline".into(),
                crate_name: "deadline".into(),
                topics: vec!["job.validate".into()],
            }],
            order: vec![".priority-default".into(), "deadline".into()],
            required: vec!["deadline".into()],
            schedulers: vec!["shortest".into()],
            config: json!({"plugins": {"deadline": {"default": "2d"}}}),
            manifest: manifest.into(),
            lock: "version = 4\n".into(),
            sbom: json!({"bomFormat": "CycloneDX"}),
        }
    }

    proptest! {
        #[test]
        fn it_is_found_in_any_binary(before: Vec<u8>, after: Vec<u8>, manifest: String) {
            let composition = sample(&manifest);
            // Each manager contains the mark as a constant, too.
            let parts = [&before, MARK.as_bytes(), b"12 ", composition.to_text().unwrap().as_bytes(), &after].concat();
            prop_assert_eq!(Composition::search(&parts), Some(composition));
        }

        #[test]
        fn other_files_have_none(bytes: Vec<u8>) {
            prop_assert_eq!(Composition::search(&bytes), None);
            let marked = [MARK.as_bytes(), &bytes].concat();
            prop_assert_eq!(Composition::search(&marked), None);
        }
    }

    #[test]
    fn a_changed_text_is_refused() {
        let text = sample("x").to_text().unwrap().replace("deadline", "deadlime");
        assert_eq!(Composition::search(text.as_bytes()), None);
    }
}
