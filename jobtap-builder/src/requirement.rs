//! The SDK that a plugin crate depends on, read from its manifest before cargo runs.
//!
//! Two SDKs in one binary would each have a list of plugins, and the manager would see only one of them.

use std::path::{Component, Path, PathBuf};

use crate::error::SdkError;
use crate::manifest::PluginEntry;
use crate::sdk::Sdk;

const CRATE: &str = "jobtap-core";

/// Refuses a plugin that would bring a second SDK. Returns the SDK's path from the plugin's manifest if
/// cargo would treat that path and a symlink to the SDK as two packages.
pub(crate) fn check(
    plugin: &PluginEntry,
    directory: &Path,
    sdk: &Sdk,
) -> Result<Option<PathBuf>, SdkError> {
    let Some((dependency, declared_in)) = dependency(directory) else { return Ok(None) };
    let text = dependency.as_str().or_else(|| dependency.get("version")?.as_str());
    let wanted = text.and_then(|text| semver::VersionReq::parse(text).ok());
    if let Some(wanted) = wanted
        && !wanted.matches(&sdk.version)
    {
        return Err(SdkError::OtherVersion {
            plugin: plugin.name.clone(),
            wanted,
            sdk: sdk.named(),
        });
    }
    let Some(path) = dependency.get("path").and_then(toml::Value::as_str) else { return Ok(None) };
    let seen = seen_by_cargo(&declared_in, path);
    let theirs = declared_in.join(path);
    let theirs = std::fs::canonicalize(&theirs).unwrap_or(theirs);
    let ours = sdk.root.join(CRATE);
    if theirs == std::fs::canonicalize(&ours).unwrap_or(ours) {
        // Cargo reaches a workspace member through the symlink to its workspace, so both paths agree.
        let linked = workspace_root(directory).is_some() && Path::new(path).is_relative();
        return Ok(seen.parent().filter(|_| !linked).map(Path::to_path_buf));
    }
    Err(SdkError::OtherPath { plugin: plugin.name.clone(), theirs, sdk: sdk.named() })
}

/// Returns a path in a crate's manifest as cargo reads it: without `..`, and without resolving links.
fn seen_by_cargo(directory: &Path, path: &str) -> PathBuf {
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let mut seen = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(seen.pop()),
            part => seen.push(part),
        }
    }
    seen
}

/// Returns a crate's dependency on the SDK, and the directory of the manifest that declares it.
fn dependency(directory: &Path) -> Option<(toml::Value, PathBuf)> {
    let table = manifest(directory)?;
    let dependency = table.get("dependencies")?.get(CRATE)?.clone();
    if dependency.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
        return Some((dependency, directory.to_path_buf()));
    }
    let root = workspace_root(directory)?;
    let table = manifest(&root)?;
    let dependency = table.get("workspace")?.get("dependencies")?.get(CRATE)?.clone();
    Some((dependency, root))
}

fn manifest(directory: &Path) -> Option<toml::Table> {
    let text = std::fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    toml::from_str(&text).ok()
}

/// Returns the root of a crate's workspace, which may be the crate itself.
pub(crate) fn workspace_root(directory: &Path) -> Option<PathBuf> {
    let directory = std::fs::canonicalize(directory).ok()?;
    let is_root = |path: &&Path| {
        let table = manifest(path);
        let workspace = table.as_ref().and_then(|table| table.get("workspace"));
        workspace.is_some_and(|workspace| !excludes(workspace, path, &directory))
    };
    directory.ancestors().find(is_root).map(Path::to_path_buf)
}

/// Returns whether a workspace at `root` excludes a directory.
fn excludes(workspace: &toml::Value, root: &Path, directory: &Path) -> bool {
    let excluded = workspace.get("exclude").and_then(toml::Value::as_array);
    let mut excluded = excluded.into_iter().flatten().filter_map(toml::Value::as_str);
    excluded.any(|excluded| directory.starts_with(root.join(excluded)))
}

/// Returns whether a crate's manifest takes values from a workspace.
pub(crate) fn inherits(manifest: &toml::Table) -> bool {
    manifest.iter().any(|(key, value)| match value {
        toml::Value::Boolean(from_workspace) => key == "workspace" && *from_workspace,
        // `package.metadata` belongs to other tools.
        toml::Value::Table(table) => key != "metadata" && inherits(table),
        _ => false,
    })
}

/// Returns whether a crate's manifest refers to directories outside of its own.
pub(crate) fn has_neighbours(directory: &Path) -> bool {
    fn outside(value: &toml::Value) -> bool {
        match value {
            toml::Value::Table(table) => table.iter().any(|(key, value)| {
                (key == "path" && value.as_str().is_some_and(|path| path.starts_with("..")))
                    || outside(value)
            }),
            toml::Value::Array(items) => items.iter().any(outside),
            _ => false,
        }
    }
    manifest(directory).is_some_and(|table| outside(&toml::Value::Table(table)))
}
