//! `kvs dump` and `kvs restore`: all stored keys as an archive.

use std::io;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::cli::message::{CliError, Prog, plural};
use crate::cli::session;
use crate::client::Client;
use crate::daemon::statedir::StateDir;
use crate::files::TemporaryDir;
use crate::rpc::services::kvs::{Dump, Dumped};

/// The names of files that mean standard output. They are handled here, since the manager, which writes the
/// archive, has another standard output.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];

/// Options and arguments of `kvs dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// Say what was written
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The archive to write: FILE.tar, FILE.tgz, FILE.tar.bz2, or - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Options and arguments of `kvs restore`.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// Say what was restored
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The state directory that a manager will be started with
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// The archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs `kvs dump`.
pub(super) async fn dump(client: &Client, args: &DumpArgs) -> Result<u8, CliError> {
    let answer = if STDOUT.iter().any(|name| args.file == Path::new(name)) {
        let directory = TemporaryDir::new().map_err(CliError::failure)?;
        dump_to_stdout(client, &directory.path().join("dump.tar")).await?
    } else {
        written(client, &std::path::absolute(&args.file)?).await?
    };
    if args.verbose {
        say(&counted("dumped", answer.jobs, answer.keys));
    }
    Ok(0)
}

/// Has the manager write the archive: it runs as the same user as this command.
async fn written(client: &Client, file: &Path) -> Result<Dumped, CliError> {
    if file.to_str().is_none() {
        return Err(CliError::failure(format!("{}: the name is not UTF-8", file.display())));
    }
    Ok(client.call(Dump { file: file.to_owned() }).await?)
}

async fn dump_to_stdout(client: &Client, file: &Path) -> Result<Dumped, CliError> {
    let answer = written(client, file).await?;
    let mut file = std::fs::File::open(file)?;
    io::copy(&mut file, &mut io::stdout().lock()).map_err(|error| CliError::write(&error))?;
    Ok(answer)
}

/// Runs `kvs restore`.
pub(super) fn restore(args: &RestoreArgs) -> Result<u8, CliError> {
    let statedir = StateDir::open(&args.state_dir).map_err(CliError::failure)?;
    let restored = archive::restore(statedir.path(), &args.file).map_err(CliError::failure)?;
    for path in &restored.skipped {
        say(&format!("{path}: a link between parts of a KVS has no place here and is left out"));
    }
    if args.verbose {
        say(&counted("restored", restored.jobs, restored.keys));
    }
    Ok(0)
}

fn counted(done: &str, jobs: u64, keys: u64) -> String {
    format!("{done} {} with {}", plural(jobs, "job"), plural(keys, "key"))
}

fn say(text: &str) {
    session::note(&Prog::current().plain(super::COMMAND, text));
}
