//! `kvs dump` and `kvs restore`: write all stored keys to an archive, and read them back.

use std::io;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::cli::common::message::{CliError, Prog, plural};
use crate::cli::common::session;
use crate::cli::common::work::Work;
use crate::client::Client;
use crate::daemon::statedir::StateDir;
use crate::files::TemporaryDir;
use crate::rpc::services::kvs::{Dump, Dumped};

/// The file names that stand for standard output. This command handles them: the manager, which writes the
/// archive, has a different standard output.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];

/// Options and arguments of `kvs dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// Print the number of jobs and keys written
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Archive to write: FILE.tar, FILE.tgz, FILE.tar.bz2, or "-" for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Options and arguments of `kvs restore`.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// Print the number of jobs and keys restored
    #[arg(short = 'v', long)]
    verbose: bool,
    /// New state directory, with which a manager can be started
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// Archive to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs `kvs dump`.
pub(super) async fn dump(client: &Client, args: &DumpArgs) -> Result<u8, CliError> {
    let dumped = if STDOUT.iter().any(|name| args.file == Path::new(name)) {
        // The manager writes to a temporary file, which is then copied.
        let directory = TemporaryDir::new().map_err(CliError::failure)?;
        dump_to_stdout(client, &directory.path().join("dump.tar")).await?
    } else {
        request_dump(client, &std::path::absolute(&args.file)?).await?
    };
    if args.verbose {
        print_message(&summary("dumped", dumped.jobs, dumped.keys));
    }
    Ok(0)
}

/// Asks the manager to write the archive. The manager runs as the same user as this command.
async fn request_dump(client: &Client, file: &Path) -> Result<Dumped, CliError> {
    if file.to_str().is_none() {
        return Err(CliError::failure(format!("{}: the name is not UTF-8", file.display())));
    }
    let _work = Work::start("the manager writes the archive");
    Ok(client.call(Dump { file: file.to_owned() }).await?)
}

async fn dump_to_stdout(client: &Client, file: &Path) -> Result<Dumped, CliError> {
    let dumped = request_dump(client, file).await?;
    let mut file = std::fs::File::open(file)?;
    io::copy(&mut file, &mut io::stdout().lock()).map_err(|error| CliError::write(&error))?;
    Ok(dumped)
}

/// Runs `kvs restore`.
pub(super) fn restore(args: &RestoreArgs) -> Result<u8, CliError> {
    let statedir = StateDir::open(&args.state_dir).map_err(CliError::failure)?;
    let restored = restore_into(statedir.path(), &args.file)?;
    for path in &restored.skipped {
        print_message(&format!(
            "{path}: skipped: links between namespaces of a KVS can't be restored"
        ));
    }
    if args.verbose {
        print_message(&summary("restored", restored.jobs, restored.keys));
    }
    Ok(0)
}

/// Restores an archive, with progress.
pub(in crate::cli) fn restore_into(
    statedir: &Path,
    file: &Path,
) -> Result<archive::Restored, CliError> {
    let work = Work::start("restoring");
    let seen = &mut |keys| work.say(&plural(keys, "key"));
    archive::restore(statedir, file, seen).map_err(CliError::failure)
}

fn summary(done: &str, jobs: u64, keys: u64) -> String {
    format!("{done} {} with {}", plural(jobs, "job"), plural(keys, "key"))
}

fn print_message(text: &str) {
    session::print_message(&Prog::current().plain(super::messages::COMMAND, text));
}
