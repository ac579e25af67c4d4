//! `build`: builds a manager with chosen plugins. Its subcommands edit the manifest and show what it builds.

mod edit;
mod inspect;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jobtap_builder::{BuildError, Library, Manifest};

use self::source::{MANIFEST, ProcessArgs, SourceArgs, read};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::files::{self, Access};

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
        jobtap_builder::recover(binary, &file)?;
        return Ok(0);
    }
    let (mut manifest, options) = read(&args.source, &args.process)?;
    if options.lock.is_none() {
        name_after(&mut manifest, args.output.as_deref());
    }
    if let Some(directory) = &args.print_crate {
        jobtap_builder::print_crate(&manifest, &options, directory)?;
        return Ok(0);
    }
    if let Some(file) = args.sbom.as_deref().filter(|file| !is_stdout(file)) {
        // Checked before compiling, which takes minutes.
        files::check_target(file).map_err(failed(file))?;
    }
    let output = args.output.unwrap_or_else(|| {
        let name = &manifest.manager.name;
        let library = manifest.manager.host.map(Library::for_host);
        library.map_or_else(|| name.clone(), |library| library.file_name(name)).into()
    });
    let built = jobtap_builder::build(&manifest, &options, &output)?;
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
        let whose = match (host, &built.composition.slurm) {
            (None, _) => String::new(),
            (Some(host), None) => format!(" for {}", host.kind()),
            (Some(host), Some(version)) => format!(" for {}, Slurm {version}", host.kind()),
        };
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
        Some(host) => Library::for_host(host).name_in(file).ok(),
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
