//! What cargo resolved: the packages of the manager, and where each comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;

use super::cargo::{self, Cargo};
use super::error::BuildError;
use super::manifest::PluginEntry;
use super::plan::Plan;
use super::sdk;

/// A package, as `cargo metadata` describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) source: Option<String>,
    pub(super) manifest_path: PathBuf,
    pub(super) license: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) description: Option<String>,
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Graph,
}

#[derive(Debug, Deserialize)]
struct Graph {
    nodes: Vec<Node>,
    root: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
    features: Vec<String>,
}

/// The packages of a manager.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) packages: BTreeMap<String, Package>,
    nodes: BTreeMap<String, Node>,
    root: String,
    /// SHA-256 of packages from registries, by name, version and source: two registries may have other
    /// crates of one name.
    checksums: BTreeMap<(String, String, String), String>,
    /// The lock.
    pub(super) lock: String,
}

impl Package {
    /// The root of its library's source.
    pub(super) fn library(&self) -> Option<&PathBuf> {
        let is_library = |target: &&Target| {
            target.kind.iter().any(|kind| kind.contains("lib") || kind == "proc-macro")
        };
        self.targets.iter().find(is_library).map(|target| &target.src_path)
    }
}

/// Asks cargo. Without `locked`, the lock may change.
pub(super) fn resolve(
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
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| BuildError::Resolve(format!("cargo metadata: {error}")))?;
    let file = cargo.directory.join("Cargo.lock");
    let lock = std::fs::read_to_string(&file).map_err(BuildError::file(&file))?;
    let resolved = Resolved {
        checksums: checksums(&lock),
        packages: metadata.packages.into_iter().map(|p| (p.id.clone(), p)).collect(),
        nodes: metadata.resolve.nodes.into_iter().map(|n| (n.id.clone(), n)).collect(),
        root: metadata.resolve.root.unwrap_or_default(),
        lock,
    };
    resolved.one_sdk(plan)?;
    Ok(resolved)
}

/// Cargo's refusal, in our words where we know more.
fn failed(text: &str, plan: &Plan, locked: bool) -> BuildError {
    if locked && text.contains("--locked") {
        return BuildError::Lock("the lock does not fit the manifest".into());
    }
    if text.contains("jobtap-core") {
        let by = text.lines().find_map(|line| {
            let (_, rest) = line.split_once("required by package `")?;
            rest.split(['`', ' ']).next().map(str::to_owned)
        });
        let by = by.unwrap_or_else(|| "a plugin".into());
        return BuildError::Sdk(format!(
            "{by} needs another jobtap-core than {} is: take a version of it for {}, or build with --sdk and a checkout of jobtap that fits; cargo says:\n{text}",
            plan.sdk.described(),
            plan.sdk.version
        ));
    }
    if let Some(refusal) = unknown_registry(text, plan) {
        return refusal;
    }
    if text.contains("--offline was specified") {
        return BuildError::Resolve(format!(
            "{text}\n--offline: not all of them are at hand; build once without it, or once with --vendor DIR and from then on with the same"
        ));
    }
    let named = |entry: &&PluginEntry| {
        [" ", "`"].iter().any(|end| text.contains(&format!("`{}{end}", entry.name)))
    };
    match plan.manifest.plugins.iter().find(named) {
        Some(entry) => BuildError::refused(format!(
            "plugin {:?}: look at its `name`, `version`, `registry` and `features` in the manifest: cargo can't find what they ask for:\n{text}",
            entry.name
        )),
        None => BuildError::Resolve(text.to_owned()),
    }
}

/// A registry that no configuration has: cargo names it, but not who asks for it.
fn unknown_registry(text: &str, plan: &Plan) -> Option<BuildError> {
    let (_, rest) = text.split_once("registry index was not found in any configuration: `")?;
    let (name, _) = rest.split_once('`')?;
    let asks = |entry: &&PluginEntry| entry.registry.as_deref() == Some(name);
    let entry = plan.manifest.plugins.iter().find(asks)?;
    Some(BuildError::refused(format!(
        "plugin {:?}: nobody knows the registry {name:?}: correct the name, or write its index, {name} = \"URL\", into [registries] of the manifest",
        entry.name,
    )))
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
    /// Refuses a second SDK, and names who brings it.
    fn one_sdk(&self, plan: &Plan) -> Result<(), BuildError> {
        for name in sdk::CRATES {
            let all: Vec<&Package> = self.reachable().filter(|p| p.name == *name).collect();
            let sdk = self.directory(plan);
            let foreign = all.iter().find(|package| !package.manifest_path.starts_with(&sdk));
            let Some(foreign) = foreign else { continue };
            let by = self.nodes.values().filter(|node| node.dependencies.contains(&foreign.id));
            let by = by.filter_map(|node| self.packages.get(&node.id)).map(|p| p.name.as_str());
            return Err(BuildError::Sdk(format!(
                "two SDKs: {} brings {name} {} from {}, beside {}: take a version of it for {}, or build with --sdk and the SDK that it needs",
                by.collect::<Vec<_>>().join(", "),
                foreign.version,
                foreign
                    .source
                    .clone()
                    .unwrap_or_else(|| foreign.manifest_path.display().to_string()),
                plan.sdk.described(),
                plan.sdk.version
            )));
        }
        Ok(())
    }

    /// Where cargo sees the SDK.
    fn directory(&self, plan: &Plan) -> PathBuf {
        if let Some(root) = &plan.sdk_in_place {
            return root.clone();
        }
        let root = self.packages.get(&self.root).and_then(|root| root.manifest_path.parent());
        root.map_or_else(|| plan.sdk.root.clone(), |root| root.join("sdk"))
    }

    /// Whether a package is one of the SDK.
    pub(super) fn is_sdk(&self, package: &Package, plan: &Plan) -> bool {
        sdk::CRATES.contains(&package.name.as_str())
            && package.manifest_path.starts_with(self.directory(plan))
    }

    /// All packages that the manager is compiled from, without itself.
    pub(super) fn reachable(&self) -> impl Iterator<Item = &Package> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next = vec![self.root.as_str()];
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                let node = self.nodes.get(id);
                next.extend(
                    node.into_iter().flat_map(|n| n.dependencies.iter().map(String::as_str)),
                );
            }
        }
        let all = seen.into_iter().filter(|id| *id != self.root);
        all.filter_map(|id| self.packages.get(id))
    }

    /// What a package depends on.
    pub(super) fn dependencies(&self, id: &str) -> &[String] {
        self.nodes.get(id).map_or(&[], |node| node.dependencies.as_slice())
    }

    /// A crate that the manager itself depends on.
    pub(super) fn direct(&self, name: &str) -> Option<&Package> {
        let ids = self.dependencies(&self.root).iter();
        ids.filter_map(|id| self.packages.get(id)).find(|package| package.name == name)
    }

    /// The features that are on for a package.
    pub(super) fn features(&self, id: &str) -> &[String] {
        self.nodes.get(id).map_or(&[], |node| node.features.as_slice())
    }

    /// The checksum of a package in its registry.
    pub(super) fn checksum(&self, package: &Package) -> Option<&String> {
        let source = package.source.clone()?;
        self.checksums.get(&(package.name.clone(), package.version.clone(), source))
    }

    /// The generated crate itself.
    pub(super) fn root(&self) -> &str {
        &self.root
    }
}
