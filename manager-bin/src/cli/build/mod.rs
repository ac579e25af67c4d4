//! `build`: makes a manager with chosen plugins, changes its manifest, and explains it.

mod edit;
mod look;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::build::{self, BuildError, Manifest, Options, PluginEntry};
use crate::cli::message::{CliError, Prog};
use crate::cli::session;
use crate::files::{self, Access};

const MANIFEST: &str = "jobtap-build.toml";

/// Options of `build`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BuildArgs {
    #[command(subcommand)]
    command: Option<BuildCommand>,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    how: How,
    /// Write the binary here; without it, into the present directory under the manager's name
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the crate that would be compiled here, and do not compile it
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    print_crate: Option<PathBuf>,
    /// Write the bill of materials (CycloneDX) here; - is standard output
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    /// Do not build, but write the manifest and the lock of this manager again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "print_crate", "sbom"])]
    from_binary: Option<PathBuf>,
}

/// One line per subcommand.
#[derive(Debug, clap::Subcommand)]
enum BuildCommand {
    /// Add a plugin to the manifest, or take a builtin in again
    Add(edit::AddArgs),
    /// Take a plugin out of the manifest, or leave a builtin out
    Remove(edit::RemoveArgs),
    /// Show in what a manager differs from another one, or from what would be built now
    Diff(look::DiffArgs),
    /// Show which plugins would be built in, in which order, and why
    Explain(look::ExplainArgs),
}

/// What is to be built.
#[derive(Debug, Clone, clap::Args)]
struct What {
    /// The manifest; without it, jobtap-build.toml of the present directory
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Take this plugin in too: a version from crates.io, or a crate's directory
    #[arg(long, value_name = "NAME@VERSION|NAME=PATH")]
    with: Vec<String>,
    /// Leave a builtin plugin out
    #[arg(long, value_name = "BUILTIN")]
    without: Vec<String>,
    /// Build with the SDK of this checkout of jobtap
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
    /// The target triple
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Optimise for days of use: takes minutes
    #[arg(long)]
    release: bool,
}

/// How it is to be built.
#[derive(Debug, Clone, clap::Args)]
struct How {
    /// Refuse to change the lock beside the manifest
    #[arg(long)]
    locked: bool,
    /// Do not use the network
    #[arg(long)]
    offline: bool,
    /// Take the sources of all crates from here; filled by the first build
    #[arg(long, value_name = "DIR")]
    vendor: Option<PathBuf>,
    /// Keep sources and compiled crates here
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Keep compiled crates here
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Show nothing but errors
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
            session::note(&Prog::current().error("build", &error.text));
            ExitCode::from(error.code)
        }
    }
}

fn execute(args: BuildArgs) -> Result<u8, CliError> {
    match &args.command {
        Some(BuildCommand::Add(args)) => edit::add(args),
        Some(BuildCommand::Remove(args)) => edit::remove(args),
        Some(BuildCommand::Diff(args)) => look::diff(args),
        Some(BuildCommand::Explain(args)) => look::explain(args),
        None => make(args),
    }
}

fn make(args: BuildArgs) -> Result<u8, CliError> {
    if let Some(binary) = &args.from_binary {
        let file = args.what.file.clone().unwrap_or_else(|| PathBuf::from(MANIFEST));
        build::recover(binary, &file)?;
        return Ok(0);
    }
    let (mut manifest, options) = read(&args.what, &args.how)?;
    if options.lock.is_none() {
        named_after(&mut manifest, args.output.as_deref());
    }
    if let Some(directory) = &args.print_crate {
        build::print_crate(&manifest, &options, directory)?;
        return Ok(0);
    }
    if let Some(file) = args.sbom.as_deref().filter(|file| !is_stdout(file)) {
        // Compiling takes minutes.
        files::check_target(file).map_err(failed(file))?;
    }
    let output = args.output.unwrap_or_else(|| PathBuf::from(&manifest.manager.name));
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
    if !args.how.quiet {
        let plugins = built.composition.order.len();
        let shown = if output.is_dir() { &built.binary } else { &output };
        session::note(&format!("{}: {}, {plugins} plugins", shown.display(), size(built.size)));
        if !built.verified {
            session::note(
                "it is for another machine, so it was not started to compare its plugins",
            );
        }
    }
    Ok(0)
}

/// Whether this name of a file stands for standard output.
fn is_stdout(file: &Path) -> bool {
    ["-", "/dev/stdout"].iter().any(|name| file == Path::new(name))
}

/// Names the file in a system's error.
fn failed(file: &Path) -> impl FnOnce(std::io::Error) -> CliError + '_ {
    move |error| CliError::failure(format!("{}: {error}", file.display()))
}

/// Without a manifest, the manager is called what its file is called, where a crate can be.
fn named_after(manifest: &mut Manifest, output: Option<&Path>) {
    let file = output.filter(|file| !file.is_dir()).and_then(Path::file_name);
    let Some(name) = file.and_then(|name| name.to_str()) else { return };
    let mut named = manifest.clone();
    named.manager.name = name.to_owned();
    if named.check().is_ok() {
        *manifest = named;
    }
}

/// A number of bytes with a unit.
fn size(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

/// The manifest with the additions of the options, and the path of its lock file.
fn read(what: &What, how: &How) -> Result<(Manifest, Options), CliError> {
    let present = Some(PathBuf::from(MANIFEST)).filter(|file| file.is_file());
    let file = what.file.clone().or(present);
    let mut manifest = match &file {
        Some(file) if !file.exists() => return Err(no_manifest(file)),
        Some(file) => Manifest::read(file)?,
        None if what.with.is_empty() && what.without.is_empty() => {
            return Err(no_manifest(Path::new(MANIFEST)));
        }
        None => Manifest::default(),
    };
    let base = file.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let base =
        std::path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { &base })?;
    for word in &what.with {
        let entry = with(word)?.ok_or_else(|| {
            CliError::usage(format!("--with={word}: neither NAME@VERSION nor NAME=PATH"))
        })?;
        manifest.plugins.retain(|plugin| plugin.name != entry.name);
        manifest.plugins.push(entry);
    }
    if let Some(builtins) = &mut manifest.manager.builtins {
        builtins.retain(|name| !what.without.contains(name));
    } else {
        manifest.manager.without.extend(what.without.iter().cloned());
    }
    if let Some(sdk) = &what.sdk {
        manifest.manager.sdk = Some(std::path::absolute(sdk)?);
    }
    if let Some(target) = &what.target {
        manifest.manager.target = Some(target.clone());
    }
    manifest.manager.release |= what.release;
    let lock = file.map(|file| file.with_extension("lock"));
    let options = Options {
        base,
        lock,
        keep_lock: !what.with.is_empty() || what.sdk.is_some(),
        cache: how.cache.clone(),
        target_dir: how.target_dir.clone(),
        locked: how.locked,
        offline: how.offline,
        vendor: how.vendor.clone(),
        quiet: how.quiet,
    };
    Ok((manifest, options))
}

/// Parses a plugin of an option: `NAME@VERSION` or `NAME=PATH`; `None` for any other text.
fn with(word: &str) -> Result<Option<PluginEntry>, CliError> {
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

/// The error where a manifest is needed.
fn no_manifest(file: &Path) -> CliError {
    CliError::usage(format!(
        "there is no {}: make a manifest with `jobtap new manager NAME`, or name one with -f",
        file.display()
    ))
}
