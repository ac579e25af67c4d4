//! The crate that cargo compiles into the manager.
//!
//! It has one path for all manifests, and the SDK and the plugins are links inside it. Cargo identifies
//! path dependencies by their paths, so what is compiled once serves every manager, and the binary doesn't
//! depend on where its sources are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jobtap_daemon::composition::Host;
use jobtap_daemon::files::{self, Access};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value, value};

use crate::error::{BuildError, PlaceError};
use crate::host::Library;
use crate::manifest::{Part, PluginEntry};
use crate::plan::Plan;
use crate::requirement;
use crate::sdk;

/// The first line of the files by which a generated crate is recognized.
const MADE: &str = "# Made by `jobtap build`.";

/// The file that the generated `main` includes.
pub(crate) const COMPOSITION: &str = "composition.txt";

/// The folder in which directories of crates are linked, numbered from 1.
const CRATES: &str = "crates";

/// The link to the directory of vendored crates, see [`crate::vendor`].
pub(crate) const VENDOR: &str = "crates/vendor";

/// The beginning and end of the index URLs that stand for directories of crates. The domain `.invalid` is
/// reserved, so no host has such a name.
const INDEX: &str = "sparse+https://";
const DOMAIN: &str = ".jobtap.invalid/";

/// The files and links of the crate.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// Files by their names.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The targets of links by the links' names.
    pub(crate) links: BTreeMap<String, PathBuf>,
}

/// Makes the crate without the composition, which is known only when cargo has resolved it.
pub(crate) fn generate(plan: &Plan) -> Generated {
    let mut generated = Generated::default();
    generated.links.insert("sdk".into(), plan.sdk.root.clone());
    let text = cargo_toml(plan, &mut generated.links);
    generated.files.insert("Cargo.toml".into(), text.into_bytes());
    if plan.manifest.manager.host.is_none() {
        generated.files.insert("src/main.rs".into(), main_rs(plan).into_bytes());
    }
    let config = cargo_config(plan, &mut generated.links);
    generated.files.insert(".cargo/config.toml".into(), config.into_bytes());
    if let Some(toolchain) = &plan.manifest.manager.toolchain {
        let text = Table::from_iter([("toolchain", table([("channel", value(toolchain))]))]);
        let text = DocumentMut::from(text).to_string();
        generated.files.insert("rust-toolchain.toml".into(), text.into_bytes());
    }
    generated
}

impl Generated {
    /// Writes the crate into a directory. Files that are up to date stay untouched, so that cargo compiles
    /// only what changed.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), BuildError> {
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

    /// Writes the crate into a directory with copies instead of links, so that it is complete.
    pub(crate) fn eject(&self, plan: &Plan, directory: &Path) -> Result<(), BuildError> {
        sdk::write_tree(directory, &self.files)?;
        for name in self.links.keys() {
            // A file that an earlier copy had and the sources no longer have would be compiled, too.
            let copy = directory.join(name);
            match std::fs::remove_dir_all(&copy) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(BuildError::file(&copy))?,
            }
        }
        plan.sdk.copy(&directory.join("sdk"))?;
        for (name, from) in self.links.iter().filter(|(name, _)| *name != "sdk") {
            sdk::write_tree(&directory.join(name), &crate::checksum::files_below(from)?)?;
            if name.starts_with(CRATES) {
                eject_checksums(from, &directory.join(name))?;
            }
        }
        Ok(())
    }
}

/// Copies the hidden files with checksums, without which cargo refuses a directory of crates.
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

/// Refuses a directory with other files in it, since files of the generated crate would replace them.
pub(crate) fn check_directory(directory: &Path) -> Result<(), BuildError> {
    let mut entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(reason) => return Err(BuildError::File { path: directory.to_path_buf(), reason }),
    };
    // These files are written first, and begin with the mark.
    let is_ours = |file: &str| {
        std::fs::read_to_string(directory.join(file)).is_ok_and(|text| text.starts_with(MADE))
    };
    if entries.next().is_none() || ["Cargo.toml", ".cargo/config.toml"].into_iter().any(is_ours) {
        return Ok(());
    }
    Err(PlaceError::NotOurs(directory.to_path_buf()).into())
}

/// Makes a link, or changes the target of an existing one.
pub(crate) fn link(to: &Path, link: &Path) -> Result<(), BuildError> {
    if std::fs::read_link(link).is_ok_and(|present| present == *to) {
        return Ok(());
    }
    match std::fs::symlink_metadata(link) {
        Ok(found) if found.is_symlink() => {
            std::fs::remove_file(link).map_err(BuildError::file(link))?;
        }
        Ok(_) => return Err(PlaceError::InTheWay(link.to_path_buf()).into()),
        // It doesn't exist yet.
        Err(_) => {}
    }
    std::os::unix::fs::symlink(to, link).map_err(BuildError::file(link))
}

pub(crate) fn write_if_changed(file: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if std::fs::read(file).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent).map_err(BuildError::file(parent))?;
    }
    files::write_whole(file, bytes, Access::Kept).map_err(BuildError::file(file))
}

/// The source of a crate for another host. `order` lists the plugins in the order in which they are called.
pub(crate) fn library(host: Host, plan: &Plan, order: &[String]) -> String {
    let mut text = format!("//! Plugins for {}, made by `jobtap build`.\n\n", host.kind());
    for name in uses(plan) {
        let _ = writeln!(text, "use {name} as _;");
    }
    let _ = writeln!(
        text,
        "\n/// What the file was made of: `jobtap plugin available FILE` finds it here.\n\
         #[used]\nstatic COMPOSITION: &str = include_str!(\"../{COMPOSITION}\");\n"
    );
    let (name, order) = (format!("{:?}", plan.manifest.manager.name), format!("{order:?}"));
    let _ = match host {
        Host::Flux => writeln!(text, "jobtap_flux::export!({order});"),
        Host::SlurmJobSubmit => {
            writeln!(text, "jobtap_slurm::export_job_submit!({name}, {order});")
        }
        Host::SlurmPrep => writeln!(text, "jobtap_slurm::export_prep!({name}, {order});"),
    };
    text
}

/// The crates with plugins, as Rust names them.
fn uses(plan: &Plan) -> Vec<String> {
    let mut uses: Vec<String> =
        plan.manifest.plugins.iter().map(|plugin| plugin.library()).collect();
    if !plan.builtins.is_empty() {
        uses.push("jobtap_builtins".into());
    }
    uses.sort();
    uses
}

fn main_rs(plan: &Plan) -> String {
    let mut text = format!(
        "//! {}: a custom job manager, made by `jobtap build`.\n\nuse std::process::ExitCode;\n\n",
        plan.manifest.manager.name
    );
    for name in uses(plan) {
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
    let place = |package: &str| match &plan.sdk_in_place {
        Some(root) => root.join(package).display().to_string(),
        None => format!("sdk/{package}"),
    };
    let name = manager.host.map(|host| Library::for_host(host).crate_name(&manager.name));
    let package = table([
        ("name", value(name.as_ref().unwrap_or(&manager.name))),
        ("version", value(&manager.version)),
        ("edition", value("2024")),
        ("publish", value(false)),
    ]);
    let mut dependencies = Table::new();
    dependencies.insert("jobtap-core", value(format!("={}", plan.sdk.version)));
    if let Some(mut key) = dependencies.key_mut("jobtap-core") {
        let why = "# By its version, so that it is the one below for every plugin.\n";
        key.leaf_decor_mut().set_prefix(why);
    }
    match manager.host {
        None => {
            let path = Value::from(place("manager-bin"));
            let parts = Part::features_without(&manager.without_parts);
            let linked = [
                ("path", path),
                ("default-features", false.into()),
                ("features", Array::from_iter(parts).into()),
            ];
            dependencies.insert("jobtap-manager", value(InlineTable::from_iter(linked)));
        }
        Some(host) => {
            let Library { adapter, features, .. } = Library::for_host(host);
            let path = Value::from(place(adapter));
            let mut linked = InlineTable::from_iter([("path", path)]);
            if !features.is_empty() {
                linked.insert("features", Array::from_iter(features.iter().copied()).into());
            }
            dependencies.insert(adapter, value(linked));
        }
    }
    if !plan.builtins.is_empty() {
        let builtins = InlineTable::from_iter([
            ("path", Value::from(place("jobtap-builtins"))),
            ("default-features", false.into()),
            ("features", Array::from_iter(&plan.features).into()),
        ]);
        dependencies.insert("jobtap-builtins", value(builtins));
    }
    for plugin in &plan.manifest.plugins {
        dependencies.insert(&plugin.name, value(dependency(plugin, plan, links)));
    }
    let core = InlineTable::from_iter([("path", place("jobtap-core"))]);
    // Debug information would bring the paths of this machine into the binary.
    let dev = [("debug", value(false)), ("incremental", value(false)), ("panic", value("unwind"))];
    let release = [("lto", value("fat")), ("codegen-units", value(1)), ("panic", value("unwind"))];
    let library = || table([("crate-type", value(Array::from_iter(["cdylib"])))]);
    document([
        ("package", package),
        ("lib", manager.host.map_or(Item::None, |_| library())),
        ("dependencies", dependencies.into()),
        ("patch", parent([("crates-io", table([("jobtap-core", value(core))]))])),
        ("profile", parent([("dev", table(dev)), ("release", table(release))])),
        ("workspace", table([("exclude", value(Array::from_iter(["sdk", "plugins"])))])),
    ])
}

fn dependency(
    plugin: &PluginEntry,
    plan: &Plan,
    links: &mut BTreeMap<String, PathBuf>,
) -> InlineTable {
    let mut keys = InlineTable::new();
    if let Some(version) = &plugin.version {
        keys.insert("version", version.into());
    }
    if let Some(path) = &plugin.path {
        keys.insert("path", place_of(plugin, &plan.base.join(path), plan, links).into());
    }
    if let Some(directory) = &plugin.directory {
        keys.insert("registry", registry_name(&plan.base.join(directory), plan).into());
    }
    if let Some(registry) = &plugin.registry {
        keys.insert("registry", registry.into());
    }
    if !plugin.features.is_empty() {
        keys.insert("features", Array::from_iter(&plugin.features).into());
    }
    if let Some(on) = plugin.default_features {
        keys.insert("default-features", on.into());
    }
    keys
}

/// Returns the path of a plugin inside the generated crate. Its workspace is linked, if it is in one,
/// since its manifest may inherit from it.
fn place_of(
    plugin: &PluginEntry,
    directory: &Path,
    plan: &Plan,
    links: &mut BTreeMap<String, PathBuf>,
) -> String {
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let root = match requirement::workspace_root(&directory) {
        Some(root) => root,
        // Relative paths in its manifest wouldn't resolve through a link.
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

/// Returns the name of the registry that stands for a directory of crates in cargo. It depends only on the
/// place in the manifest, so that locks are the same everywhere.
fn registry_name(directory: &Path, plan: &Plan) -> String {
    let index = directories(plan).iter().position(|other| other == directory);
    format!("directory-{}", index.unwrap_or_default() + 1)
}

/// Returns the name of the registry with this index, if [`registry_name`] made it.
pub(crate) fn registry_of(index: &str) -> Option<&str> {
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
    let (mut registries, mut sources) = (Table::new(), Table::new());
    for (name, index) in &plan.manifest.registries {
        registries.insert(name, table([("index", value(index))]));
    }
    for (index, directory) in directories(plan).into_iter().enumerate() {
        let name = registry_name(&directory, plan);
        let place = format!("{CRATES}/{}", index + 1);
        let index = format!("{INDEX}{name}{DOMAIN}");
        let files = format!("{name}-files");
        registries.insert(&name, table([("index", value(&index))]));
        let replaced = [("registry", value(&index)), ("replace-with", value(&files))];
        sources.insert(&name, table(replaced));
        sources.insert(&files, table([("directory", value(&place))]));
        links.insert(place, directory);
    }
    registries.set_implicit(true);
    sources.set_implicit(true);
    document([("registries", registries.into()), ("source", sources.into())])
}

/// Returns the text of a file for cargo, below the line by which it is recognized.
fn document<const N: usize>(tables: [(&str, Item); N]) -> String {
    let mut document = DocumentMut::from(Table::from_iter(tables));
    document.decor_mut().set_prefix(format!("{MADE}\n\n"));
    document.to_string()
}

fn table<const N: usize>(keys: [(&str, Item); N]) -> Item {
    Table::from_iter(keys).into()
}

/// A table that contains only tables, and so has no header of its own.
fn parent<const N: usize>(tables: [(&str, Item); N]) -> Item {
    let mut parent = Table::from_iter(tables);
    parent.set_implicit(true);
    parent.into()
}

/// The number of directories of crates that the compiler's flags provide for.
const USUAL: usize = 9;

/// Returns the names that replace the directories of crates on this machine, so that a binary doesn't depend
/// on them. Cargo compiles everything again when flags differ, so the flags are the same for all manifests
/// with up to [`USUAL`] directories of crates.
pub(crate) fn renamed(plan: &Plan, crate_dir: &Path) -> Vec<(PathBuf, &'static str)> {
    let count = directories(plan).len().max(USUAL);
    let places = (1..=count).map(|number| format!("{CRATES}/{number}"));
    let places = places.chain([VENDOR.to_owned()]).map(|place| crate_dir.join(place));
    let crates = places.map(|place| (place, "/crates"));
    let sdk = plan.sdk_in_place.iter().map(|root| (root.clone(), "/manager/sdk"));
    [(crate_dir.to_path_buf(), "/manager")].into_iter().chain(crates).chain(sdk).collect()
}

/// Returns a text as TOML writes it.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_with_other_files_is_refused() {
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
    fn only_links_and_generated_files_are_replaced() {
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
