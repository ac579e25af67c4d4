//! What a binary made by `jobtap build` knows of itself: its plugins, its manifest, its lock.
//!
//! It stands in the binary as a text with a checksum, so that it can be read from the file of a
//! manager for another machine, too.

use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checksum;
use super::error::BuildError;
use super::sdk;

/// How the text in a binary begins; then its length and its checksum.
const MARK: &str = "JOBTAP-COMPOSITION-1 ";

/// What a manager was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Composition {
    /// The binary's name.
    pub name: String,
    /// The binary's version.
    pub version: String,
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
    /// Its plugins in the order in which they are called.
    pub order: Vec<String>,
    /// Those of them that it must have; of the others the compiler decides, by a condition.
    pub required: Vec<String>,
    /// The schedulers of its crates that it must have.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// Its configuration before any file of the site's.
    pub config: Value,
    /// The manifest's text.
    pub manifest: String,
    /// The text of the lock.
    pub lock: String,
    /// The bill of materials, CycloneDX.
    pub sbom: Value,
}

/// A crate with plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it came from: `sdk`, `path+..`, `directory+..`, or the registry as cargo names it.
    pub source: String,
    /// SHA-256 of the crate as its registry has it, or over the files of its directory.
    pub checksum: String,
}

impl Composition {
    /// The text that goes into the binary.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn to_text(&self) -> Result<String, BuildError> {
        let json =
            serde_json::to_string(self).map_err(|error| BuildError::refused(error.to_string()))?;
        let checksum = checksum::of_bytes(json.as_bytes());
        Ok(format!("{MARK}{} {checksum}\n{json}", json.len()))
    }

    /// Reads the text again, from the beginning of these bytes.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MARK.as_bytes())?;
        // A length and a checksum: no more than these many digits.
        let head = rest.get(..90.min(rest.len()))?;
        let end = head.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(head.get(..end)?).ok()?;
        let (length, sum) = head.split_once(' ')?;
        let start = end.checked_add(1)?;
        let json = rest.get(start..start.checked_add(length.parse().ok()?)?)?;
        if checksum::of_bytes(json) != sum {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    /// Finds it in the file of a manager.
    ///
    /// # Errors
    /// When the file can't be read or isn't a manager made by `jobtap build`.
    pub fn of_binary(file: &Path) -> Result<Self, BuildError> {
        let bytes = std::fs::read(file).map_err(BuildError::file(file))?;
        Self::search(&bytes).ok_or_else(|| BuildError::NotBuilt {
            path: file.to_path_buf(),
            reason: "no manager made by `jobtap build`: it names no plugins".into(),
        })
    }

    fn search(bytes: &[u8]) -> Option<Self> {
        let mark = MARK.as_bytes();
        let first = *mark.first()?;
        let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first);
        // The mark itself is a constant of each manager, and not what is looked for.
        starts.filter_map(|(at, _)| Self::from_bytes(bytes.get(at..)?)).next()
    }

    /// Where a crate of its plugins or of its SDK comes from, and its checksum.
    pub(crate) fn origin(&self, crate_name: &str) -> Option<(&str, &str)> {
        match self.crate_info(crate_name) {
            Some(info) => Some((&info.source, &info.checksum)),
            None if sdk::CRATES.contains(&crate_name) => Some(("sdk", &self.sdk_checksum)),
            None => None,
        }
    }

    /// A crate by its name.
    pub(super) fn crate_info(&self, name: &str) -> Option<&CrateInfo> {
        self.crates.iter().find(|info| info.name == name)
    }
}

static OWN: OnceLock<Composition> = OnceLock::new();

/// Tells this process what it was made of; what the code that `jobtap build` makes calls first.
///
/// # Errors
/// When the text isn't one that `jobtap build` of this version made.
pub(crate) fn declare(text: &str) -> Result<(), BuildError> {
    let composition = Composition::from_bytes(text.as_bytes()).ok_or_else(|| {
        BuildError::refused("this manager's list of plugins is damaged: build it again")
    })?;
    // The first one counts; there is one.
    let _ = OWN.set(composition);
    Ok(())
}

/// What this process was made of, if `jobtap build` made it.
pub(crate) fn own() -> Option<&'static Composition> {
    OWN.get()
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    pub(in crate::build) fn sample(manifest: &str) -> Composition {
        Composition {
            name: "site".into(),
            version: "1.0.0".into(),
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
            // Each manager holds the mark as a constant, too.
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
    fn a_changed_text_is_not_believed() {
        let text = sample("x").to_text().unwrap().replace("deadline", "deadlime");
        assert_eq!(Composition::search(text.as_bytes()), None);
    }
}
