//! The crate that cargo compiles into the manager.
//!
//! It stands at one place for all manifests, and the SDK and the plugins are links inside it: cargo
//! names crates of the workspace by their path in it, so that what is compiled once serves every
//! manager, and the binary doesn't depend on where its sources are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::manifest::PluginEntry;
use super::plan::Plan;
use super::requirement;
use super::sdk;
use crate::files::{self, Access};

/// How the files begin by which a crate is known that was generated.
const MADE: &str = "# Made by `jobtap build`.";

/// The file that the generated `main` includes.
pub(super) const COMPOSITION: &str = "composition.txt";

/// Where directories of crates are linked, by their number from 1.
const CRATES: &str = "crates";

/// The directory with all crates, for builds that take them from one; see [`super::vendor`].
pub(super) const VENDOR: &str = "crates/vendor";

/// How the indices begin and end that directories of crates are known by: no host has such a name.
const INDEX: &str = "sparse+https://";
const DOMAIN: &str = ".jobtap.invalid/";

/// Where the crate's parts come from.
#[derive(Debug, Default)]
pub(super) struct Generated {
    /// Files by their names.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Links by their names, and what they lead to.
    pub(super) links: BTreeMap<String, PathBuf>,
}

/// Makes the crate, all but the composition, which is known only when cargo has resolved it.
pub(super) fn generate(plan: &Plan) -> Generated {
    let mut generated = Generated::default();
    generated.links.insert("sdk".into(), plan.sdk.root.clone());
    let text = cargo_toml(plan, &mut generated.links);
    generated.files.insert("Cargo.toml".into(), text.into_bytes());
    generated.files.insert("src/main.rs".into(), main_rs(plan).into_bytes());
    let config = cargo_config(plan, &mut generated.links);
    generated.files.insert(".cargo/config.toml".into(), config.into_bytes());
    if let Some(toolchain) = &plan.manifest.manager.toolchain {
        let text = format!("[toolchain]\nchannel = {}\n", quoted(toolchain));
        generated.files.insert("rust-toolchain.toml".into(), text.into_bytes());
    }
    generated
}

impl Generated {
    /// Puts it into a directory. What is as it should be stays untouched, so that cargo sees only what
    /// changed.
    pub(super) fn write(&self, directory: &Path) -> Result<(), BuildError> {
        for (name, bytes) in &self.files {
            write_if_changed(&directory.join(name), bytes)?;
        }
        for folder in ["plugins", CRATES] {
            let path = directory.join(folder);
            std::fs::create_dir_all(&path).map_err(BuildError::file(&path))?;
            for entry in std::fs::read_dir(&path).map_err(BuildError::file(&path))?.flatten() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if is_link && !self.links.contains_key(&name) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
        for (name, to) in &self.links {
            link(to, &directory.join(name))?;
        }
        let toolchain = directory.join("rust-toolchain.toml");
        if !self.files.contains_key("rust-toolchain.toml") && toolchain.exists() {
            std::fs::remove_file(&toolchain).map_err(BuildError::file(&toolchain))?;
        }
        Ok(())
    }

    /// Puts it into a directory that needs nothing else: with copies in the place of links.
    pub(super) fn eject(&self, plan: &Plan, directory: &Path) -> Result<(), BuildError> {
        sdk::write_tree(directory, &self.files)?;
        plan.sdk.copy(&directory.join("sdk"))?;
        for (name, from) in self.links.iter().filter(|(name, _)| *name != "sdk") {
            sdk::write_tree(&directory.join(name), &super::checksum::files_below(from)?)?;
            if name.starts_with(CRATES) {
                eject_checksums(from, &directory.join(name))?;
            }
        }
        Ok(())
    }
}

/// Cargo reads a directory of crates only with the checksums that each of them has in a hidden file.
fn eject_checksums(from: &Path, to: &Path) -> Result<(), BuildError> {
    for entry in std::fs::read_dir(from).map_err(BuildError::file(from))?.flatten() {
        let file = entry.path().join(".cargo-checksum.json");
        if file.is_file() {
            let to = to.join(entry.file_name()).join(".cargo-checksum.json");
            let bytes = std::fs::read(&file).map_err(BuildError::file(&file))?;
            write_if_changed(&to, &bytes)?;
        }
    }
    Ok(())
}

/// Refuses a directory for a generated crate that has something else in it, since files there are replaced.
pub(super) fn check_directory(directory: &Path) -> Result<(), BuildError> {
    let mut entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(reason) => return Err(BuildError::File { path: directory.to_path_buf(), reason }),
    };
    // The first files that are written begin with it.
    let is_ours = |file: &str| {
        std::fs::read_to_string(directory.join(file)).is_ok_and(|text| text.starts_with(MADE))
    };
    if entries.next().is_none() || ["Cargo.toml", ".cargo/config.toml"].into_iter().any(is_ours) {
        return Ok(());
    }
    Err(BuildError::refused(format!(
        "{} is not empty, and `jobtap build` did not make what is in it: name a new or an empty directory",
        directory.display()
    )))
}

/// Makes a link, or turns the one that is there.
pub(super) fn link(to: &Path, link: &Path) -> Result<(), BuildError> {
    if std::fs::read_link(link).is_ok_and(|present| present == *to) {
        return Ok(());
    }
    match std::fs::symlink_metadata(link) {
        Ok(found) if found.is_symlink() => {
            std::fs::remove_file(link).map_err(BuildError::file(link))?;
        }
        Ok(_) => {
            let text = format!("{} is in the way of a link: remove it", link.display());
            return Err(BuildError::refused(text));
        }
        // It is to be made.
        Err(_) => {}
    }
    std::os::unix::fs::symlink(to, link).map_err(BuildError::file(link))
}

pub(super) fn write_if_changed(file: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if std::fs::read(file).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent).map_err(BuildError::file(parent))?;
    }
    files::write_whole(file, bytes, Access::Kept).map_err(BuildError::file(file))
}

fn main_rs(plan: &Plan) -> String {
    let mut uses: Vec<String> =
        plan.manifest.plugins.iter().map(|plugin| plugin.library()).collect();
    if !plan.builtins.is_empty() {
        uses.push("jobtap_builtins".into());
    }
    uses.sort();
    let mut text = format!(
        "//! {}: a custom job manager, made by `jobtap build`.\n\nuse std::process::ExitCode;\n\n",
        plan.manifest.manager.name
    );
    for name in uses {
        let _ = writeln!(text, "use {name} as _;");
    }
    let _ = write!(
        text,
        "\nfn main() -> ExitCode {{\n    jobtap_manager::main_of(include_str!(\"../{COMPOSITION}\"))\n}}\n"
    );
    text
}

fn cargo_toml(plan: &Plan, links: &mut BTreeMap<String, PathBuf>) -> String {
    let manager = &plan.manifest.manager;
    let mut text = format!("{MADE}\n\n[package]\n");
    let _ = writeln!(text, "name = {}", quoted(&manager.name));
    let _ = writeln!(text, "version = {}", quoted(&manager.version));
    text.push_str("edition = \"2024\"\npublish = false\n\n[dependencies]\n");
    let version = &plan.sdk.version;
    let _ = writeln!(text, "# By its version, so that it is the one below for every plugin.");
    let _ = writeln!(text, "jobtap-core = \"={version}\"");
    let place = |package: &str| match &plan.sdk_in_place {
        Some(root) => quoted(&root.join(package).display().to_string()),
        None => quoted(&format!("sdk/{package}")),
    };
    let path = place("manager-bin");
    let _ = writeln!(text, "jobtap-manager = {{ path = {path}, default-features = false }}");
    if !plan.builtins.is_empty() {
        let (path, features) = (place("jobtap-builtins"), list(&plan.features));
        let _ = writeln!(
            text,
            "jobtap-builtins = {{ path = {path}, default-features = false, features = {features} }}"
        );
    }
    for plugin in &plan.manifest.plugins {
        let _ = writeln!(text, "{}", dependency(plugin, plan, links));
    }
    let path = place("jobtap-core");
    let _ = writeln!(text, "\n[patch.crates-io]\njobtap-core = {{ path = {path} }}");
    // Without debug information the paths of this machine stay out of the binary.
    text.push_str(
        "\n[profile.dev]\ndebug = false\nincremental = false\npanic = \"unwind\"\n\
         \n[profile.release]\nlto = \"fat\"\ncodegen-units = 1\npanic = \"unwind\"\n\
         \n[workspace]\nexclude = [\"sdk\", \"plugins\"]\n",
    );
    text
}

fn dependency(plugin: &PluginEntry, plan: &Plan, links: &mut BTreeMap<String, PathBuf>) -> String {
    let mut parts = Vec::new();
    if let Some(version) = &plugin.version {
        parts.push(format!("version = {}", quoted(version)));
    }
    if let Some(path) = &plugin.path {
        let place = place_of(plugin, &plan.base.join(path), plan, links);
        parts.push(format!("path = {}", quoted(&place)));
    }
    if let Some(directory) = &plugin.directory {
        parts.push(format!(
            "registry = {}",
            quoted(&registry_name(&plan.base.join(directory), plan))
        ));
    }
    if let Some(registry) = &plugin.registry {
        parts.push(format!("registry = {}", quoted(registry)));
    }
    if !plugin.features.is_empty() {
        parts.push(format!("features = {}", list(&plugin.features)));
    }
    if let Some(on) = plugin.default_features {
        parts.push(format!("default-features = {on}"));
    }
    format!("{} = {{ {} }}", plugin.name, parts.join(", "))
}

/// Where in the generated crate a plugin's directory is. What is linked is its workspace, if it is in
/// one, since its manifest may refer to that.
fn place_of(
    plugin: &PluginEntry,
    directory: &Path,
    plan: &Plan,
    links: &mut BTreeMap<String, PathBuf>,
) -> String {
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let root = match requirement::workspace_root(&directory) {
        Some(root) => root,
        // Seen through a link, its neighbours would not be there.
        None if requirement::has_neighbours(&directory) => return directory.display().to_string(),
        None => directory.clone(),
    };
    let name = match links.iter().find(|(_, to)| **to == root) {
        Some((name, _)) => name.clone(),
        None if root == std::fs::canonicalize(&plan.sdk.root).unwrap_or_default() => "sdk".into(),
        None => format!("plugins/{}", plugin.name),
    };
    links.entry(name.clone()).or_insert_with(|| root.clone());
    match directory.strip_prefix(&root) {
        Ok(inner) if inner.as_os_str().is_empty() => name,
        Ok(inner) => format!("{name}/{}", inner.display()),
        Err(_) => directory.display().to_string(),
    }
}

/// A directory of crates is shown to cargo as a registry of which all crates are at hand. Its name
/// depends on its place in the manifest alone, so that locks are the same everywhere.
fn registry_name(directory: &Path, plan: &Plan) -> String {
    let index = directories(plan).iter().position(|other| other == directory);
    format!("directory-{}", index.unwrap_or_default() + 1)
}

/// The name of the registry with this index, if [`registry_name`] made it.
pub(super) fn registry_of(index: &str) -> Option<&str> {
    index.strip_prefix(INDEX)?.strip_suffix(DOMAIN)
}

fn directories(plan: &Plan) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for plugin in &plan.manifest.plugins {
        if let Some(directory) = &plugin.directory {
            let directory = plan.base.join(directory);
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
    }
    directories
}

fn cargo_config(plan: &Plan, links: &mut BTreeMap<String, PathBuf>) -> String {
    let mut text = format!("{MADE}\n");
    for (name, index) in &plan.manifest.registries {
        let _ = write!(text, "\n[registries.{name}]\nindex = {}\n", quoted(index));
    }
    for (index, directory) in directories(plan).into_iter().enumerate() {
        let name = registry_name(&directory, plan);
        let place = format!("{CRATES}/{}", index + 1);
        let path = quoted(&place);
        links.insert(place, directory);
        let index = format!("{INDEX}{name}{DOMAIN}");
        let _ = write!(
            text,
            "\n[registries.{name}]\nindex = \"{index}\"\n\n[source.{name}]\nregistry = \"{index}\"\n\
             replace-with = \"{name}-files\"\n\n[source.{name}-files]\ndirectory = {path}\n"
        );
    }
    text
}

/// Names for the directories of this machine that crates are in, so that a binary does not depend on
/// them. Flags that differ would have cargo compile everything again: they are the same for all
/// manifests with as many directories of crates as anybody has.
pub(super) fn renamed(plan: &Plan, crate_dir: &Path) -> Vec<(PathBuf, &'static str)> {
    const USUAL: usize = 9;
    let count = directories(plan).len().max(USUAL);
    let places = (1..=count).map(|number| format!("{CRATES}/{number}"));
    let places = places.chain([VENDOR.to_owned()]).map(|place| crate_dir.join(place));
    let crates = places.map(|place| (place, "/crates"));
    let sdk = plan.sdk_in_place.iter().map(|root| (root.clone(), "/manager/sdk"));
    [(crate_dir.to_path_buf(), "/manager")].into_iter().chain(crates).chain(sdk).collect()
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_crate_goes_where_nothing_else_is() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("crate");
        assert!(check_directory(&directory).is_ok(), "it is made");
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("Cargo.toml"), "[package]\n").unwrap();
        let refusal = check_directory(&directory).unwrap_err().to_string();
        assert!(refusal.contains("name a new or an empty directory"), "{refusal}");
        fs::write(directory.join("Cargo.toml"), format!("{MADE}\n[package]\n")).unwrap();
        assert!(check_directory(&directory).is_ok());
    }

    #[test]
    fn only_links_and_what_was_generated_are_replaced() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("plugins")).unwrap();
        fs::write(path("plugins/precious"), "precious").unwrap();
        symlink("/old", path("plugins/old")).unwrap();
        symlink("/other", path("plugins/a")).unwrap();
        let mut generated = Generated::default();
        generated.files.insert("src/main.rs".into(), b"fn main() {}".to_vec());
        generated.links.insert("plugins/a".into(), "/new".into());
        generated.write(base.path()).unwrap();
        assert_eq!(fs::read_link(path("plugins/a")).unwrap(), Path::new("/new"));
        assert!(fs::symlink_metadata(path("plugins/old")).is_err());
        generated.links.insert("plugins/precious".into(), "/new".into());
        let refusal = generated.write(base.path()).unwrap_err().to_string();
        assert!(refusal.contains("in the way of a link: remove it"), "{refusal}");
        assert_eq!(fs::read(path("plugins/precious")).unwrap(), b"precious");
    }
}
