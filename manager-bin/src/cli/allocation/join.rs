//! `allocation join`: makes this process a node of the instance that has ordered the allocation in which it runs. The
//! script of the allocation calls it, once on each node.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::COMMAND;
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::start::serve_allocation;
use crate::exec::nodes::Invitation;

/// The longest invitation, in bytes.
const LONGEST: u64 = 64 << 10;

/// The file that stands for the standard input.
const STDIN: &str = "-";

/// Arguments of `allocation join`.
#[derive(Debug, clap::Args)]
pub(super) struct JoinArgs {
    /// File with the manager's invitation, which only its user may read; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &JoinArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let told =
            |reason: String| CliError::failure(format!("join: {}: {reason}", args.file.display()));
        let text = match args.file.as_os_str() == STDIN {
            true => read(io::stdin().lock()),
            false => open(&args.file).and_then(read),
        };
        let text = text.map_err(|error| told(system_text(&error)))?;
        let invitation = Invitation::decode(&text).map_err(|error| told(error.to_string()))?;
        serve_allocation(&invitation).await
    })
}

fn read(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file, unless others than its owner can read it.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(file),
        _ => Err(io::Error::other(format!(
            "others could read it (mode {mode:03o}), and it holds a secret: chmod 600"
        ))),
    }
}
