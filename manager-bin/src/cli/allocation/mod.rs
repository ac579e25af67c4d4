//! `allocation`: the allocations that an elastic instance has ordered from another job manager.

mod join;
mod list;

use std::process::ExitCode;

use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;
use crate::rpc::services::allocation::Release;

const COMMAND: &str = "allocation";

/// Arguments of `allocation`.
#[derive(Debug, clap::Args)]
pub(crate) struct AllocationArgs {
    #[command(subcommand)]
    command: AllocationCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum AllocationCommand {
    /// List the allocations, why they wait, and until when they run
    List(list::ListArgs),
    /// Give allocations back: at once if they have no job, and else when their jobs have ended
    Release(ReleaseArgs),
    /// Be a node of the allocation in which this runs
    Join(join::JoinArgs),
}

/// Arguments of `allocation release`.
#[derive(Debug, clap::Args)]
struct ReleaseArgs {
    /// Ids of allocations, from the first column of `allocation list`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u64>,
}

/// Runs the command.
pub(crate) fn run(args: AllocationArgs) -> ExitCode {
    match args.command {
        AllocationCommand::List(args) => {
            session::with_manager(COMMAND, Family::Script, async |client| {
                list::run(&client, &args).await
            })
        }
        AllocationCommand::Release(ReleaseArgs { ids }) => {
            session::with_manager(COMMAND, Family::Script, async |client| {
                for id in ids {
                    let released = client.call(Release { id }).await;
                    released.map_err(|error| CliError::failure(error.to_string()))?;
                }
                Ok(0)
            })
        }
        AllocationCommand::Join(args) => join::run(&args),
    }
}
