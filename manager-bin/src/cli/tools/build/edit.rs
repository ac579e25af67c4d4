//! `build add` and `build remove`: edit the manifest and keep the rest of its text.

use std::path::{Path, PathBuf};

use jobtap_builder::{BuildError, Manifest};
use jobtap_core::host::PluginDescriptor;

use super::source::{MANIFEST, no_manifest, parse_plugin};
use crate::cli::common::message::CliError;
use crate::files::input;
use crate::files::{self, Access};
use crate::linked;

/// The crate that contains the builtin plugins.
const BUILTINS: &str = "jobtap-builtins";

/// Options and arguments of `build add`.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    #[command(flatten)]
    location: ManifestArg,
    /// A version from a registry, the directory of a crate, or a builtin plugin
    #[arg(value_name = "NAME@VERSION|NAME=PATH|BUILTIN")]
    plugin: String,
    /// Name of the registry in the manifest or in cargo's configuration [default: crates.io]
    #[arg(long, value_name = "NAME")]
    registry: Option<String>,
    /// Take the version from this directory, which holds crates
    #[arg(long, value_name = "DIR", conflicts_with = "registry")]
    directory: Option<PathBuf>,
    /// Enable a feature of the crate (repeatable)
    #[arg(long, value_name = "FEATURE")]
    feature: Vec<String>,
    /// Call the plugin before this one (repeatable)
    #[arg(long, value_name = "PLUGIN")]
    before: Vec<String>,
    /// Call the plugin after this one (repeatable)
    #[arg(long, value_name = "PLUGIN")]
    after: Vec<String>,
}

/// Options and arguments of `build remove`.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    location: ManifestArg,
    /// Crate of the plugin, or a builtin plugin
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct ManifestArg {
    /// Manifest to edit
    #[arg(short = 'f', long, value_name = "FILE", default_value = MANIFEST)]
    file: PathBuf,
}

/// Runs `build add`.
pub(super) fn add(args: &AddArgs) -> Result<u8, CliError> {
    let file = &args.location.file;
    if is_builtin(&args.plugin) {
        return change(file, |text| jobtap_builder::set_builtin(text, &args.plugin, true));
    }
    let word = &args.plugin;
    let mut entry = parse_plugin(word)?.ok_or_else(|| {
        CliError::usage(format!("{word}: neither NAME@VERSION nor NAME=PATH nor a builtin"))
    })?;
    // The user's paths are relative to the current directory, those in a manifest to the manifest.
    let from_manifest = |path: PathBuf| -> Result<PathBuf, CliError> { Ok(relative(&path, file)?) };
    entry.path = entry.path.map(from_manifest).transpose()?;
    entry.directory = args.directory.clone().map(from_manifest).transpose()?;
    entry.registry = args.registry.clone();
    entry.features = args.feature.clone();
    (entry.before, entry.after) = (args.before.clone(), args.after.clone());
    change(file, |text| jobtap_builder::add_plugin(text, &entry))
}

/// Runs `build remove`.
pub(super) fn remove(args: &RemoveArgs) -> Result<u8, CliError> {
    change(&args.location.file, |text| match is_builtin(&args.name) {
        true => jobtap_builder::set_builtin(text, &args.name, false),
        false => jobtap_builder::remove_plugin(text, &args.name),
    })
}

/// Returns true if a builtin has this name. A leading dot shows it; other names are looked up among the plugins that
/// are linked into this program.
fn is_builtin(name: &str) -> bool {
    // A path may begin with a dot as well.
    if name.contains(['/', '=', '@']) {
        return false;
    }
    let own = |plugin: &PluginDescriptor| plugin.crate_name == BUILTINS;
    let known = || linked::registry().ok().and_then(|registry| registry.find(name));
    name.starts_with('.') || known().is_some_and(own)
}

/// Returns the path relative to the manifest's directory if it lies in that directory or in its parent, and
/// an absolute path otherwise.
fn relative(path: &Path, manifest: &Path) -> std::io::Result<PathBuf> {
    let (path, manifest) = (std::path::absolute(path)?, std::path::absolute(manifest)?);
    let base = manifest.parent().unwrap_or(Path::new("/"));
    let beside = base.parent().and_then(|above| path.strip_prefix(above).ok());
    Ok(match (path.strip_prefix(base), beside) {
        (Ok(inner), _) if inner.as_os_str().is_empty() => PathBuf::from("."),
        (Ok(inner), _) => inner.to_path_buf(),
        (_, Some(beside)) => Path::new("..").join(beside),
        _ => path,
    })
}

/// Replaces the manifest with what `edit` returns for its text.
fn change(file: &Path, edit: impl Fn(&str) -> Result<String, BuildError>) -> Result<u8, CliError> {
    let failed = |error: std::io::Error| CliError::failure(format!("{}: {error}", file.display()));
    if !file.exists() {
        return Err(no_manifest(file));
    }
    let text = input::text(file).map_err(failed)?;
    // Parsed only for its errors, which name the file: `edit` knows only the text.
    Manifest::parse(&file.display().to_string(), &text).map_err(BuildError::from)?;
    files::write_whole(file, edit(&text)?.as_bytes(), Access::Kept).map_err(failed)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_manifest() {
        let from = |path: &str| relative(path.as_ref(), "/site/manager/m.toml".as_ref()).unwrap();
        assert_eq!(from("/site/manager/plugins/a"), Path::new("plugins/a"));
        assert_eq!(from("/site/a"), Path::new("../a"));
        assert_eq!(from("/opt/a"), Path::new("/opt/a"));
        assert_eq!(from("/site/manager"), Path::new("."));
    }
}
