//! The options that say what is built and how, and the manifest that they make.

use std::path::{Path, PathBuf};

use jobtap_builder::{Host, Manifest, Options, PluginEntry};

use crate::cli::common::message::CliError;

/// The default name of a manifest.
pub(super) const MANIFEST: &str = "jobtap-build.toml";

/// The options that determine what is built.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SourceArgs {
    /// Manifest [default: jobtap-build.toml, if it exists]
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Add a plugin: a version from crates.io, or the directory of a crate (repeatable)
    #[arg(long, value_name = "NAME@VERSION|NAME=PATH")]
    with: Vec<String>,
    /// Exclude a builtin plugin (repeatable)
    #[arg(long, value_name = "BUILTIN")]
    without: Vec<String>,
    /// Build a shared library that this host loads, and no manager
    #[arg(long, value_enum, value_name = "HOST")]
    host: Option<HostName>,
    /// Build with the SDK of this checkout of jobtap
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
    /// Target triple
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Compile with full optimization, which takes minutes
    #[arg(long)]
    release: bool,
}

/// A host, by its name on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum HostName {
    /// A Flux instance's job manager: `flux jobtap load FILE`
    Flux,
    /// Slurm's slurmctld, by JobSubmitPlugins
    SlurmJobSubmit,
    /// Slurm's slurmctld and slurmd, by PrEpPlugins
    SlurmPrep,
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        match name {
            HostName::Flux => Self::Flux,
            HostName::SlurmJobSubmit => Self::SlurmJobSubmit,
            HostName::SlurmPrep => Self::SlurmPrep,
        }
    }
}

/// The options that determine how the build runs.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ProcessArgs {
    /// Fail if the lock file beside the manifest would change
    #[arg(long)]
    locked: bool,
    /// Don't use the network
    #[arg(long)]
    offline: bool,
    /// Take the sources of all crates from this directory; the first build fills it
    #[arg(long, value_name = "DIR")]
    vendor: Option<PathBuf>,
    /// Keep sources and compiled crates in this directory
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Keep compiled crates in this directory
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Build for a release of Slurm that isn't known, as for the newest one that is
    #[arg(long)]
    force_layout: bool,
    /// Print errors only
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
}

/// The manifest with the changes by the options, and the options of the build.
pub(super) fn read(
    source: &SourceArgs,
    process: &ProcessArgs,
) -> Result<(Manifest, Options), CliError> {
    let default = Some(PathBuf::from(MANIFEST)).filter(|file| file.is_file());
    let file = source.file.clone().or(default);
    let mut manifest = match &file {
        Some(file) if !file.exists() => return Err(no_manifest(file)),
        Some(file) => Manifest::read(file)?,
        None if source.with.is_empty() && source.without.is_empty() => {
            return Err(no_manifest(Path::new(MANIFEST)));
        }
        None => Manifest::default(),
    };
    let base = file.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let base =
        std::path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { &base })?;
    for word in &source.with {
        let entry = parse_plugin(word)?.ok_or_else(|| {
            CliError::usage(format!("--with={word}: neither NAME@VERSION nor NAME=PATH"))
        })?;
        // An option replaces the entry with the same name.
        manifest.plugins.retain(|plugin| plugin.name != entry.name);
        manifest.plugins.push(entry);
    }
    // A manifest lists either the builtins to include or those to exclude.
    if let Some(builtins) = &mut manifest.manager.builtins {
        builtins.retain(|name| !source.without.contains(name));
    } else {
        manifest.manager.without.extend(source.without.iter().cloned());
    }
    if let Some(host) = source.host {
        manifest.manager.host = Some(host.into());
        if file.is_none() {
            manifest.manager.name = "site".to_owned();
        }
    }
    if let Some(sdk) = &source.sdk {
        manifest.manager.sdk = Some(std::path::absolute(sdk)?);
    }
    if let Some(target) = &source.target {
        manifest.manager.target = Some(target.clone());
    }
    manifest.manager.release |= source.release;
    let lock = file.map(|file| file.with_extension("lock"));
    let options = Options {
        base,
        lock,
        // What an option adds is not part of the manifest, and so not of its lock file.
        keep_lock: !source.with.is_empty() || source.sdk.is_some(),
        cache: process.cache.clone(),
        target_dir: process.target_dir.clone(),
        locked: process.locked,
        offline: process.offline,
        vendor: process.vendor.clone(),
        quiet: process.quiet,
        force_layout: process.force_layout,
    };
    Ok((manifest, options))
}

/// Parses `NAME@VERSION` or `NAME=PATH`. Returns `None` for any other text.
pub(super) fn parse_plugin(word: &str) -> Result<Option<PluginEntry>, CliError> {
    let split = word.find(['=', '@']).and_then(|at| word.split_at_checked(at));
    let (name, rest) = split.unwrap_or((word, ""));
    let name = name.to_owned();
    Ok(match rest.split_at_checked(1) {
        Some(("=", path)) if !path.is_empty() => {
            // Relative to the current directory, not to the manifest.
            let path = Some(std::path::absolute(path)?);
            Some(PluginEntry { name, path, ..PluginEntry::default() })
        }
        Some(("@", version)) if !version.is_empty() => {
            let version = Some(version.to_owned());
            Some(PluginEntry { name, version, ..PluginEntry::default() })
        }
        _ => None,
    })
}

/// The error about a manifest that doesn't exist.
pub(super) fn no_manifest(file: &Path) -> CliError {
    CliError::usage(format!(
        "there is no {}: make a manifest with `jobtap new manager NAME`, or name one with -f",
        file.display()
    ))
}
