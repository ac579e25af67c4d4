//! `build add` and `build remove`: change the manifest's text.

use std::path::{Path, PathBuf};

use jobtap_core::host::PluginDescriptor;

use super::{MANIFEST, no_manifest, with};
use crate::build::{self, BuildError, Manifest, linked};
use crate::cli::message::CliError;
use crate::files::{self, Access};

/// The crate of the builtins.
const BUILTINS: &str = "jobtap-builtins";

/// Options and arguments of `build add`.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    #[command(flatten)]
    place: Place,
    /// A version from a registry, a crate's directory, or a builtin
    #[arg(value_name = "NAME@VERSION|NAME=PATH|BUILTIN")]
    plugin: String,
    /// The registry, by its name in the manifest or in cargo's configuration; without it, crates.io
    #[arg(long, value_name = "NAME")]
    registry: Option<String>,
    /// Take the version from this directory of crates
    #[arg(long, value_name = "DIR", conflicts_with = "registry")]
    directory: Option<PathBuf>,
    /// A feature of the crate; repeatable
    #[arg(long, value_name = "FEATURE")]
    feature: Vec<String>,
    /// Call it before this plugin; repeatable
    #[arg(long, value_name = "PLUGIN")]
    before: Vec<String>,
    /// Call it after this plugin; repeatable
    #[arg(long, value_name = "PLUGIN")]
    after: Vec<String>,
}

/// Options and arguments of `build remove`.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    place: Place,
    /// The plugin's crate, or a builtin
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The manifest; without it, jobtap-build.toml of the present directory
    #[arg(short = 'f', long, value_name = "FILE", default_value = MANIFEST)]
    file: PathBuf,
}

/// Runs `build add`.
pub(super) fn add(args: &AddArgs) -> Result<u8, CliError> {
    let file = &args.place.file;
    if is_builtin(&args.plugin) {
        return change(file, |text| build::set_builtin(text, &args.plugin, true));
    }
    let word = &args.plugin;
    let mut entry = with(word)?.ok_or_else(|| {
        CliError::usage(format!("{word}: neither NAME@VERSION nor NAME=PATH nor a builtin"))
    })?;
    // Of the present directory until now; in the manifest, beginning at it where that is possible.
    let near = |path: PathBuf| -> Result<PathBuf, CliError> { Ok(relative(&path, file)?) };
    entry.path = entry.path.map(near).transpose()?;
    entry.directory = args.directory.clone().map(near).transpose()?;
    entry.registry = args.registry.clone();
    entry.features = args.feature.clone();
    (entry.before, entry.after) = (args.before.clone(), args.after.clone());
    change(file, |text| build::add_plugin(text, &entry))
}

/// Runs `build remove`.
pub(super) fn remove(args: &RemoveArgs) -> Result<u8, CliError> {
    change(&args.place.file, |text| match is_builtin(&args.name) {
        true => build::set_builtin(text, &args.name, false),
        false => build::remove_plugin(text, &args.name),
    })
}

/// Not all builtins have a dot; those without are known to a program that has them.
fn is_builtin(name: &str) -> bool {
    // A path may begin with dots, too.
    if name.contains(['/', '=', '@']) {
        return false;
    }
    let own = |plugin: &PluginDescriptor| plugin.crate_name == BUILTINS;
    let known = || linked::registry().ok().and_then(|registry| registry.find(name));
    name.starts_with('.') || known().is_some_and(own)
}

/// The path relative to the manifest's directory if it is in or beside that; otherwise an absolute path.
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

fn change(file: &Path, edit: impl Fn(&str) -> Result<String, BuildError>) -> Result<u8, CliError> {
    let told = |error: std::io::Error| CliError::failure(format!("{}: {error}", file.display()));
    if !file.exists() {
        return Err(no_manifest(file));
    }
    let text = std::fs::read_to_string(file).map_err(told)?;
    // Here for its errors, which name the file.
    Manifest::parse(&file.display().to_string(), &text)?;
    files::write_whole(file, edit(&text)?.as_bytes(), Access::Kept).map_err(told)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_manifest() {
        let from = |path: &str| relative(path.as_ref(), "/site/manager/m.toml".as_ref()).unwrap();
        assert_eq!(from("/site/manager/plugins/a"), Path::new("plugins/a"));
        assert_eq!(from("/site/a"), Path::new("../a"));
        assert_eq!(from("/opt/a"), Path::new("/opt/a"));
        assert_eq!(from("/site/manager"), Path::new("."));
    }
}
