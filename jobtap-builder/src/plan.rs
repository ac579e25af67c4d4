//! The manifest compared with the SDK: the builtins to link, and where each plugin crate is. Refuses what
//! can be refused before cargo runs.

use std::path::{Path, PathBuf};

use jobtap_core::suggest::nearest;

use crate::error::{BuildError, PlanError};
use crate::manifest::{Manifest, PluginEntry};
use crate::requirement;
use crate::scan::Declared;
use crate::sdk::Sdk;

/// What is to be built.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) manifest: Manifest,
    /// The directory to which paths in the manifest are relative.
    pub(crate) base: PathBuf,
    pub(crate) sdk: Sdk,
    /// The SDK's path, if a plugin's manifest names that path; otherwise the generated crate has a link to
    /// the SDK.
    pub(crate) sdk_in_place: Option<PathBuf>,
    /// Features of `jobtap-builtins`.
    pub(crate) features: Vec<String>,
    /// The builtins that these features link.
    pub(crate) builtins: Vec<Declared>,
}

impl Plan {
    pub(crate) fn new(manifest: Manifest, base: &Path, sdk: Sdk) -> Result<Self, BuildError> {
        let base = std::path::absolute(base).map_err(BuildError::file(base))?;
        let chosen = choose(&manifest, &sdk)?;
        let mut features: Vec<String> =
            chosen.iter().flat_map(|found| found.features.iter().cloned()).collect();
        features.sort();
        features.dedup();
        for found in sdk.builtins.iter().filter(|found| !chosen.contains(found)) {
            // Without any builtin, the crate of the builtins isn't linked at all.
            if !chosen.is_empty() && found.features.iter().all(|feature| features.contains(feature))
            {
                return Err(PlanError::Inseparable(found.name.clone()).into());
            }
        }
        let mut sdk_in_place = None;
        for plugin in &manifest.plugins {
            check_place(plugin, &base)?;
            if let Some(directory) = package_directory(plugin, &base) {
                sdk_in_place = sdk_in_place.or(requirement::check(plugin, &directory, &sdk)?);
            }
        }
        Ok(Self { manifest, base, sdk, sdk_in_place, features, builtins: chosen })
    }
}

/// Returns the builtins that the manifest asks for.
fn choose(manifest: &Manifest, sdk: &Sdk) -> Result<Vec<Declared>, PlanError> {
    let manager = &manifest.manager;
    let named = manager.builtins.iter().flatten().chain(&manager.without);
    for name in named {
        let known = || sdk.builtins.iter().map(|found| found.name.as_str());
        if known().any(|other| other == name) {
            continue;
        }
        return Err(PlanError::NoBuiltin {
            name: name.clone(),
            sdk: sdk.named(),
            meant: nearest(name, known()).map(str::to_owned),
            known: known().map(str::to_owned).collect(),
        });
    }
    let wanted = |found: &&Declared| match &manager.builtins {
        Some(only) => only.contains(&found.name),
        // Flux has such plugins itself, and in Slurm they would have nothing to do.
        None => manager.host.is_none() && !manager.without.contains(&found.name),
    };
    Ok(sdk.builtins.iter().filter(wanted).cloned().collect())
}

/// Refuses a path or a directory of crates without a crate of this name.
fn check_place(plugin: &PluginEntry, base: &Path) -> Result<(), PlanError> {
    let named = || plugin.name.clone();
    if let Some(path) = &plugin.path {
        let path = base.join(path);
        let file = path.join("Cargo.toml");
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(reason) => return Err(PlanError::NoCrate { plugin: named(), path, reason }),
        };
        let table: toml::Table = match toml::from_str(&text) {
            Ok(table) => table,
            Err(error) => {
                let reason = Box::new(error);
                return Err(PlanError::Toml { plugin: named(), file, reason });
            }
        };
        let name = table.get("package").and_then(|package| package.get("name")?.as_str());
        // Cargo would look for the workspace above the generated crate, and could find another one there.
        let has_workspace = requirement::workspace_root(&path).is_some();
        return match name {
            Some(name) if name != plugin.name => {
                Err(PlanError::OtherName { plugin: named(), path, name: name.to_owned() })
            }
            Some(_) if requirement::inherits(&table) && !has_workspace => {
                Err(PlanError::NoWorkspace(named()))
            }
            Some(_) => Ok(()),
            None => Err(PlanError::NoPackage { plugin: named(), file }),
        };
    }
    if let Some(directory) = &plugin.directory
        && package_directory(plugin, base).is_none()
    {
        return Err(PlanError::NotInDirectory {
            plugin: named(),
            directory: base.join(directory),
            version: plugin.version.clone().unwrap_or_else(|| "*".to_owned()),
        });
    }
    Ok(())
}

/// Returns the directory of a plugin's crate, if the manifest names one.
fn package_directory(plugin: &PluginEntry, base: &Path) -> Option<PathBuf> {
    if let Some(path) = &plugin.path {
        return Some(base.join(path));
    }
    let wanted = semver::VersionReq::parse(plugin.version.as_deref()?).ok()?;
    let entries = std::fs::read_dir(base.join(plugin.directory.as_ref()?)).ok()?;
    let fits = |directory: &PathBuf| {
        let text = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        let table: toml::Table = toml::from_str(&text).unwrap_or_default();
        let text = |key: &str| table.get("package")?.get(key)?.as_str();
        let version = text("version").and_then(|text| semver::Version::parse(text).ok());
        text("name") == Some(&plugin.name) && version.is_some_and(|v| wanted.matches(&v))
    };
    entries.flatten().map(|entry| entry.path()).find(fits)
}
