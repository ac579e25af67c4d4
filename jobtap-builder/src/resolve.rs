//! What cargo resolved: the packages of the manager and their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{CrateType, MetadataCommand, Node};
pub(crate) use cargo_metadata::{Package, PackageId};
use jobtap_daemon::composition::SDK_CRATES;

use crate::cargo::{self, Cargo};
use crate::error::{BuildError, LockError, ResolveError, SdkError};
use crate::manifest::PluginEntry;
use crate::plan::Plan;

/// The packages of a manager.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) packages: BTreeMap<PackageId, Package>,
    nodes: BTreeMap<PackageId, Node>,
    /// The generated crate itself.
    root: PackageId,
    /// SHA-256 of packages from registries, by name, version and source: two registries may have different
    /// crates of one name.
    checksums: BTreeMap<(String, String, String), String>,
    /// The lock.
    pub(crate) lock: String,
}

/// Returns the root source file of a package's library.
pub(crate) fn library(package: &Package) -> Option<&Path> {
    let kinds = [CrateType::Lib, CrateType::RLib, CrateType::DyLib, CrateType::ProcMacro];
    let is_library = |kind: &CrateType| kinds.contains(kind);
    // Examples have these types of crates as well.
    let mut targets = package.targets.iter().filter(|target| !target.is_example());
    let library = targets.find(|target| target.crate_types.iter().any(is_library))?;
    Some(library.src_path.as_std_path())
}

/// Returns the directory of a package.
pub(crate) fn directory(package: &Package) -> &Path {
    package.manifest_path.parent().map_or(Path::new("."), |parent| parent.as_std_path())
}

/// Runs `cargo metadata`. Without `locked`, the lock may change.
pub(crate) fn resolve(
    cargo: &Cargo,
    plan: &Plan,
    target: &str,
    locked: bool,
) -> Result<Resolved, BuildError> {
    let mut command = cargo.command("metadata");
    command.args(["--format-version", "1", "--filter-platform", target]);
    if locked {
        command.arg("--locked");
    }
    let output = cargo::run(&mut command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(&text, plan, locked));
    }
    let metadata = MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .map_err(ResolveError::Unreadable)?;
    let graph = metadata.resolve.ok_or(ResolveError::NoGraph)?;
    let root = graph.root.ok_or(ResolveError::NoGraph)?;
    let file = cargo.directory.join("Cargo.lock");
    let lock = std::fs::read_to_string(&file).map_err(BuildError::file(&file))?;
    let resolved = Resolved {
        checksums: checksums(&lock),
        packages: metadata.packages.into_iter().map(|p| (p.id.clone(), p)).collect(),
        nodes: graph.nodes.into_iter().map(|n| (n.id.clone(), n)).collect(),
        root,
        lock,
    };
    resolved.one_sdk(plan)?;
    Ok(resolved)
}

/// Returns cargo's error, with what to do in the manifest if that is known.
fn failed(text: &str, plan: &Plan, locked: bool) -> BuildError {
    if locked && text.contains("--locked") {
        return LockError::Outdated.into();
    }
    if text.contains("jobtap-core") {
        let by = text.lines().find_map(|line| {
            let (_, rest) = line.split_once("required by package `")?;
            rest.split(['`', ' ']).next().map(str::to_owned)
        });
        let by = by.unwrap_or_else(|| "a plugin".into());
        return SdkError::NoneFits { by, sdk: plan.sdk.named(), cargo: text.to_owned() }.into();
    }
    if let Some(refusal) = unknown_registry(text, plan) {
        return refusal.into();
    }
    if text.contains("--offline was specified") {
        return ResolveError::Offline(text.to_owned()).into();
    }
    let named = |entry: &&PluginEntry| {
        [" ", "`"].iter().any(|end| text.contains(&format!("`{}{end}", entry.name)))
    };
    let cargo = text.to_owned();
    let refusal = match plan.manifest.plugins.iter().find(named) {
        Some(entry) => ResolveError::Plugin { plugin: entry.name.clone(), cargo },
        None => ResolveError::Cargo(cargo),
    };
    refusal.into()
}

/// The error for an unknown registry, with the plugin that asks for it, which cargo doesn't name.
fn unknown_registry(text: &str, plan: &Plan) -> Option<ResolveError> {
    let (_, rest) = text.split_once("registry index was not found in any configuration: `")?;
    let (name, _) = rest.split_once('`')?;
    let asks = |entry: &&PluginEntry| entry.registry.as_deref() == Some(name);
    let entry = plan.manifest.plugins.iter().find(asks)?;
    let (plugin, registry) = (entry.name.clone(), name.to_owned());
    Some(ResolveError::UnknownRegistry { plugin, registry })
}

fn checksums(lock: &str) -> BTreeMap<(String, String, String), String> {
    let table: toml::Table = toml::from_str(lock).unwrap_or_default();
    let packages = table.get("package").and_then(toml::Value::as_array);
    let entry = |package: &toml::Value| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?, text("source")?), text("checksum")?))
    };
    packages.into_iter().flatten().filter_map(entry).collect()
}

impl Resolved {
    /// Refuses a second SDK, and names the packages that depend on it.
    fn one_sdk(&self, plan: &Plan) -> Result<(), SdkError> {
        for name in SDK_CRATES {
            let all: Vec<&Package> = self.reachable().filter(|p| p.name == name).collect();
            let sdk = self.directory(plan);
            let foreign = all.iter().find(|package| !package.manifest_path.starts_with(&sdk));
            let Some(foreign) = foreign else { continue };
            let by = self.nodes.values().filter(|node| node.dependencies.contains(&foreign.id));
            let by = by.filter_map(|node| self.packages.get(&node.id)).map(|p| p.name.to_string());
            let source_of = foreign.source.as_ref().map(ToString::to_string);
            return Err(SdkError::Two {
                by: by.collect(),
                package: name,
                version: foreign.version.clone(),
                source_of: source_of.unwrap_or_else(|| foreign.manifest_path.to_string()),
                sdk: plan.sdk.named(),
            });
        }
        Ok(())
    }

    /// Returns the path under which cargo knows the SDK.
    fn directory(&self, plan: &Plan) -> PathBuf {
        if let Some(root) = &plan.sdk_in_place {
            return root.clone();
        }
        let root = self.packages.get(&self.root).map(directory);
        root.map_or_else(|| plan.sdk.root.clone(), |root| root.join("sdk"))
    }

    /// Returns whether a package belongs to the SDK.
    pub(crate) fn is_sdk(&self, package: &Package, plan: &Plan) -> bool {
        SDK_CRATES.contains(&package.name.as_str())
            && package.manifest_path.starts_with(self.directory(plan))
    }

    /// Returns all packages that the manager is compiled from, without the generated crate.
    pub(crate) fn reachable(&self) -> impl Iterator<Item = &Package> {
        let mut seen: BTreeSet<&PackageId> = BTreeSet::new();
        let mut next = vec![&self.root];
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                let node = self.nodes.get(id);
                next.extend(node.into_iter().flat_map(|node| &node.dependencies));
            }
        }
        let all = seen.into_iter().filter(|id| **id != self.root);
        all.filter_map(|id| self.packages.get(id))
    }

    /// Returns the packages that a package depends on.
    pub(crate) fn dependencies(&self, id: &PackageId) -> &[PackageId] {
        self.nodes.get(id).map_or(&[], |node| node.dependencies.as_slice())
    }

    /// Returns a direct dependency of the manager.
    pub(crate) fn direct(&self, name: &str) -> Option<&Package> {
        let ids = self.dependencies(&self.root).iter();
        ids.filter_map(|id| self.packages.get(id)).find(|package| package.name == name)
    }

    /// Returns the features that are on for a package.
    pub(crate) fn features(&self, id: &PackageId) -> Vec<String> {
        let features = self.nodes.get(id).into_iter().flat_map(|node| &node.features);
        features.map(ToString::to_string).collect()
    }

    /// Returns the checksum of a package in its registry.
    pub(crate) fn checksum(&self, package: &Package) -> Option<&String> {
        let source = package.source.as_ref()?.to_string();
        self.checksums.get(&(package.name.to_string(), package.version.to_string(), source))
    }

    /// Returns the id of the generated crate.
    pub(crate) fn root(&self) -> &PackageId {
        &self.root
    }
}
