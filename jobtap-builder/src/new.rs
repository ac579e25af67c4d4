//! `jobtap new`: a plugin's crate or a manager's manifest to start from.
//!
//! A plugin's crate gets a copy of the SDK, so that it can be built and tested anywhere, also by CI.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{BuildError, ManifestError, NameFault, Named, PlaceError};
use crate::manifest::check_name;
use crate::sdk::{self, Sdk};

/// The packages that a plugin is compiled from, and those with which its tests run on other hosts.
const PLUGIN_PACKAGES: &[&str] = &[
    "jobtap-core",
    "jobtap-domain",
    "jobtap-engine",
    "jobtap-flux",
    "jobtap-macros",
    "jobtap-sdk",
    "jobtap-slurm",
    "jobtap-topics",
];

const PLUGIN: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("new/plugin/Cargo.toml.in")),
    ("src/lib.rs", include_str!("new/plugin/lib.rs.in")),
    ("clippy.toml", include_str!("new/plugin/clippy.toml.in")),
    (".github/workflows/ci.yml", include_str!("new/plugin/ci.yml.in")),
    (".gitignore", "/target\n"),
];

const MANAGER: &[(&str, &str)] = &[
    ("jobtap-build.toml", include_str!("new/manager/jobtap-build.toml.in")),
    ("Containerfile", include_str!("new/manager/Containerfile.in")),
    (".gitignore", "/manager-name\n"),
];

/// Makes the crate of a plugin in a new directory: with a setting, tests, an example of what the
/// compiler refuses, CI, and the SDK.
///
/// ```no_run
/// jobtap_builder::new_plugin("fair-limits", "fair-limits".as_ref())?;
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
///
/// # Errors
/// When no crate can have the name, or the directory exists or can't be written.
pub fn new_plugin(name: &str, directory: &Path) -> Result<(), BuildError> {
    // Commands take this word for all plugins.
    if name == "all" {
        let (named, name) = (Named::NewCrate, name.to_owned());
        return Err(ManifestError::Name { named, name, fault: NameFault::EveryPlugin }.into());
    }
    begin(name, directory)?;
    let sdk = Sdk::unpacked_into(&directory.join("sdk"), PLUGIN_PACKAGES)?;
    let version = sdk.version.to_string();
    let words = [("plugin-name", name), ("PluginName", &camel(name)), ("sdk-version", &version)];
    write(directory, PLUGIN, &words)?;
    // The versions that the SDK was tested with.
    let (from, to) = (directory.join("sdk/Cargo.lock"), directory.join("Cargo.lock"));
    std::fs::rename(from, &to).map_err(BuildError::file(&to))
}

/// Makes the manifest of a manager, with every key explained, in a new directory.
///
/// ```no_run
/// jobtap_builder::new_manager("site-manager", "site-manager".as_ref())?;
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
///
/// # Errors
/// As [`new_plugin`].
pub fn new_manager(name: &str, directory: &Path) -> Result<(), BuildError> {
    begin(name, directory)?;
    write(directory, MANAGER, &[("manager-name", name)])
}

/// Makes the directory, and refuses one that exists, so that no file is replaced.
fn begin(name: &str, directory: &Path) -> Result<(), BuildError> {
    check_name(Named::NewCrate, name)?;
    let refuse = || PlaceError::Taken(directory.to_path_buf()).into();
    // A dangling link exists, too.
    if std::fs::symlink_metadata(directory).is_ok() {
        return Err(refuse());
    }
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent).map_err(BuildError::file(parent))?;
    }
    std::fs::create_dir(directory).map_err(|reason| match reason.kind() {
        ErrorKind::AlreadyExists => refuse(),
        _ => BuildError::file(directory)(reason),
    })
}

fn write(
    directory: &Path,
    templates: &[(&str, &str)],
    words: &[(&str, &str)],
) -> Result<(), BuildError> {
    let fill = |text: &str| {
        words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    };
    let files: BTreeMap<String, Vec<u8>> =
        templates.iter().map(|(name, text)| ((*name).to_owned(), fill(text).into())).collect();
    sdk::write_tree(directory, &files)
}

/// Returns a crate's name in the form of a type's name.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split(['-', '_']).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_named_after_the_crate() {
        assert_eq!(camel("fair-limits_2"), "FairLimits2");
    }

    #[test]
    fn the_new_manifest_is_valid() {
        let directory = tempfile::tempdir().unwrap();
        let site = directory.path().join("site");
        new_manager("site", &site).unwrap();
        let manifest = crate::Manifest::read(&site.join("jobtap-build.toml")).unwrap();
        assert_eq!(manifest.manager.name, "site");
        let text = std::fs::read_to_string(site.join("jobtap-build.toml")).unwrap();
        // The keys in its comments are valid, too.
        let keys = text.replace("# registry", "## registry").replace("# version", "## version");
        let keys = keys.replace("# directory", "## directory");
        let line = |line: &str| {
            let key = line.strip_prefix("# ").filter(|line| {
                line.starts_with("[[") || line.split(" = ").next().is_some_and(|w| !w.contains(' '))
            });
            format!("{}\n", key.unwrap_or(line))
        };
        let keys: String = keys.lines().map(line).collect();
        let manifest = crate::Manifest::parse("m", &keys).unwrap();
        assert_eq!(manifest.plugins.len(), 1, "{keys}");
    }

    #[test]
    fn an_existing_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let text = new_plugin("limits", directory.path()).unwrap_err().to_string();
        assert!(text.contains("is there already"), "{text}");
        let text = new_plugin("all", &directory.path().join("all")).unwrap_err().to_string();
        assert!(text.contains("means every plugin"), "{text}");
        let text = new_manager("2", &directory.path().join("2")).unwrap_err().to_string();
        assert!(text.contains("is no crate's name"), "{text}");
    }
}
