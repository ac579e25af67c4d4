//! `kvs`: reads, dumps and restores the stored keys of jobs and of the instance.

mod archive;
mod eventlog;
mod get;
mod list;
mod messages;
mod namespace;

use std::process::ExitCode;

pub(crate) use self::archive::DumpArgs;
pub(super) use self::archive::restore_into;
use self::messages::COMMAND;
use super::common::session;
use super::common::usage::Family;

/// Arguments of `kvs`.
#[derive(Debug, clap::Args)]
pub(crate) struct KvsArgs {
    #[command(subcommand)]
    command: KvsCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum KvsCommand {
    /// Print the values of keys
    #[command(infer_long_args = true)]
    Get(get::GetArgs),
    /// List the names in directories
    #[command(infer_long_args = true)]
    Ls(list::LsArgs),
    /// Show the keys of a directory with their values
    #[command(infer_long_args = true)]
    Dir(list::DirArgs),
    /// Print eventlogs, and wait for their events
    #[command(subcommand)]
    Eventlog(eventlog::EventlogCommand),
    /// Write all keys to an archive; the manager continues to run
    Dump(DumpArgs),
    /// Restore an archive of this program or of Flux into a new state directory
    Restore(archive::RestoreArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: KvsArgs) -> ExitCode {
    match args.command {
        KvsCommand::Restore(args) => {
            session::run(COMMAND, Family::Compiled, async { archive::restore(&args) })
        }
        command => session::with_manager(COMMAND, Family::Compiled, async |client| match command {
            KvsCommand::Get(args) => get::run(&client, &args).await,
            KvsCommand::Ls(args) => list::ls(&client, &args).await,
            KvsCommand::Dir(args) => list::dir(&client, &args).await,
            KvsCommand::Eventlog(command) => eventlog::run(&client, &command).await,
            KvsCommand::Dump(args) => archive::dump(&client, &args).await,
            KvsCommand::Restore(_) => Ok(0),
        }),
    }
}

/// Runs `dump`, which is Flux's name of `kvs dump`.
pub(crate) fn dump(args: DumpArgs) -> ExitCode {
    session::with_manager("dump", Family::Compiled, async |client| {
        archive::dump(&client, &args).await
    })
}
