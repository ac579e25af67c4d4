//! `build`: builds a manager with chosen plugins. Its subcommands edit the manifest and show what it builds.

mod edit;
mod inspect;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::build::{self, BuildError, Host, Manifest, Options, PluginEntry};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::files::{self, Access};

/// The default name of a manifest.
const MANIFEST: &str = "jobtap-build.toml";

/// Options of `build`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BuildArgs {
    #[command(subcommand)]
    command: Option<BuildCommand>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    process: ProcessArgs,
    /// Write the binary or library here [default: named after the manager, in the current directory]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only write the crate that would be compiled to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    print_crate: Option<PathBuf>,
    /// Write the bill of materials (CycloneDX) here; "-" is standard output
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    /// Don't build, but restore the manifest and the lock file of this manager
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "print_crate", "sbom"])]
    from_binary: Option<PathBuf>,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum BuildCommand {
    /// Add a plugin to the manifest, or include a builtin plugin again
    Add(edit::AddArgs),
    /// Remove a plugin from the manifest, or exclude a builtin plugin
    Remove(edit::RemoveArgs),
    /// Show how a manager differs from another one, or from what would be built now
    Diff(inspect::DiffArgs),
    /// Show which plugins would be linked, in which order, and why
    Explain(inspect::ExplainArgs),
}

/// The options that determine what is built.
#[derive(Debug, Clone, clap::Args)]
struct SourceArgs {
    /// Manifest [default: jobtap-build.toml, if it exists]
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Add a plugin: a version from crates.io, or the directory of a crate (repeatable)
    #[arg(long, value_name = "NAME@VERSION|NAME=PATH")]
    with: Vec<String>,
    /// Exclude a builtin plugin (repeatable)
    #[arg(long, value_name = "BUILTIN")]
    without: Vec<String>,
    /// Build a shared library that this host loads, and no manager
    #[arg(long, value_enum, value_name = "HOST")]
    host: Option<Host>,
    /// Build with the SDK of this checkout of jobtap
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
    /// Target triple
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Compile with full optimisation, which takes minutes
    #[arg(long)]
    release: bool,
}

/// The options that determine how the build runs.
#[derive(Debug, Clone, clap::Args)]
struct ProcessArgs {
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
    /// Print errors only
    #[arg(short = 'q', long)]
    quiet: bool,
}

impl From<BuildError> for CliError {
    fn from(error: BuildError) -> Self {
        Self::failure(error)
    }
}

/// Runs the command.
pub(crate) fn run(args: BuildArgs) -> ExitCode {
    match execute(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            session::print_message(&Prog::current().error("build", &error.text));
            ExitCode::from(error.code)
        }
    }
}

fn execute(args: BuildArgs) -> Result<u8, CliError> {
    match &args.command {
        Some(BuildCommand::Add(args)) => edit::add(args),
        Some(BuildCommand::Remove(args)) => edit::remove(args),
        Some(BuildCommand::Diff(args)) => inspect::diff(args),
        Some(BuildCommand::Explain(args)) => inspect::explain(args),
        None => make(args),
    }
}

fn make(args: BuildArgs) -> Result<u8, CliError> {
    if let Some(binary) = &args.from_binary {
        let file = args.source.file.clone().unwrap_or_else(|| PathBuf::from(MANIFEST));
        build::recover(binary, &file)?;
        return Ok(0);
    }
    let (mut manifest, options) = read(&args.source, &args.process)?;
    if options.lock.is_none() {
        name_after(&mut manifest, args.output.as_deref());
    }
    if let Some(directory) = &args.print_crate {
        build::print_crate(&manifest, &options, directory)?;
        return Ok(0);
    }
    if let Some(file) = args.sbom.as_deref().filter(|file| !is_stdout(file)) {
        // Checked before compiling, which takes minutes.
        files::check_target(file).map_err(failed(file))?;
    }
    let output = args.output.unwrap_or_else(|| {
        let name = &manifest.manager.name;
        manifest.manager.host.map_or_else(|| name.clone(), |host| host.file_name(name)).into()
    });
    let built = build::build(&manifest, &options, &output)?;
    if let Some(file) = &args.sbom {
        let text = format!("{:#}\n", built.composition.sbom);
        match is_stdout(file) {
            true => session::print(&text)?,
            false => {
                files::write_whole(file, text.as_bytes(), Access::Kept).map_err(failed(file))?
            }
        }
    }
    if !args.process.quiet {
        let plugins = built.composition.order.len();
        let shown = if output.is_dir() { &built.binary } else { &output };
        let plural = if plugins == 1 { "" } else { "s" };
        let host = built.composition.host;
        let whose = host.map(|host| format!(" for {}", host.kind())).unwrap_or_default();
        session::print_message(&format!(
            "{}: {}, {plugins} plugin{plural}{whose}",
            shown.display(),
            size(built.size)
        ));
        if !built.verified && host.is_none() {
            session::print_message(
                "the binary is for another machine: it wasn't started, and its plugins not verified",
            );
        }
    }
    Ok(0)
}

/// Returns true if this file name stands for standard output.
fn is_stdout(file: &Path) -> bool {
    ["-", "/dev/stdout"].iter().any(|name| file == Path::new(name))
}

/// Adds the file's name to a system error.
fn failed(file: &Path) -> impl FnOnce(std::io::Error) -> CliError + '_ {
    move |error| CliError::failure(format!("{}: {error}", file.display()))
}

/// Names the manager after its output file, unless that isn't a valid name of a crate.
fn name_after(manifest: &mut Manifest, output: Option<&Path>) {
    let Some(file) = output.filter(|file| !file.is_dir()) else { return };
    let name = match manifest.manager.host {
        Some(host) => host.name_in(file).ok(),
        None => file.file_name().and_then(|name| name.to_str()),
    };
    let Some(name) = name else { return };
    let mut named = manifest.clone();
    named.manager.name = name.to_owned();
    if named.check().is_ok() {
        *manifest = named;
    }
}

/// Formats a number of bytes in megabytes.
fn size(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

/// The manifest with the changes by the options, and the options of the build.
fn read(source: &SourceArgs, process: &ProcessArgs) -> Result<(Manifest, Options), CliError> {
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
        manifest.manager.host = Some(host);
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
        // What an option adds is no part of the manifest, and so not of its lock file.
        keep_lock: !source.with.is_empty() || source.sdk.is_some(),
        cache: process.cache.clone(),
        target_dir: process.target_dir.clone(),
        locked: process.locked,
        offline: process.offline,
        vendor: process.vendor.clone(),
        quiet: process.quiet,
    };
    Ok((manifest, options))
}

/// Parses `NAME@VERSION` or `NAME=PATH`. Returns `None` for any other text.
fn parse_plugin(word: &str) -> Result<Option<PluginEntry>, CliError> {
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
fn no_manifest(file: &Path) -> CliError {
    CliError::usage(format!(
        "there is no {}: make a manifest with `jobtap new manager NAME`, or name one with -f",
        file.display()
    ))
}
