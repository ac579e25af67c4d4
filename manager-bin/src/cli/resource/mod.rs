//! `resource`: lists resources, and drains, reserves and replaces nodes.

mod drain;
mod eventlog;
mod list;
mod listing;
mod maintenance;
mod noted;
mod offline;
mod reload;
mod selection;
mod status;

use std::process::ExitCode;

pub(super) use list::resources;
pub(super) use listing::FormArgs;
pub(super) use noted::now;
pub(super) use selection::included;

use super::message::CliError;
use super::session;
use super::usage::Family;
use crate::rpc::RpcError;

/// The name of this command in messages.
const COMMAND: &str = "resource";

/// Arguments of `resource`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResourceArgs {
    #[command(subcommand)]
    command: ResourceCommand,
}

/// One line per subcommand.
#[derive(Debug, clap::Subcommand)]
enum ResourceCommand {
    /// Show what is free, allocated and down
    List(list::ListArgs),
    /// Count nodes, cores and gpus
    Info(list::InfoArgs),
    /// Show the states of nodes
    Status(status::StatusArgs),
    /// Give no new jobs to nodes; without nodes show which are drained
    Drain(drain::DrainArgs),
    /// Give jobs to drained nodes again
    Undrain(drain::UndrainArgs),
    /// Treat nodes as lost: drain them and end their jobs
    Offline(offline::OfflineArgs),
    /// Treat lost nodes as reachable again; they stay drained
    Online(offline::OnlineArgs),
    /// Keep nodes empty for a while
    Maintenance(maintenance::MaintenanceArgs),
    /// Take another set of resources
    Reload(reload::ReloadArgs),
    /// Print resources as R (RFC 20)
    #[command(name = "R")]
    R(list::RArgs),
    /// Show what happened to nodes
    Eventlog(eventlog::EventlogArgs),
}

/// Runs the command.
pub(crate) fn run(args: ResourceArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        ResourceCommand::List(args) => list::run(&client, &args).await,
        ResourceCommand::Info(args) => list::info(&client, &args).await,
        ResourceCommand::R(args) => list::print_r(&client, &args).await,
        ResourceCommand::Status(args) => status::run(&client, &args).await,
        ResourceCommand::Drain(args) => drain::run(&client, &args).await,
        ResourceCommand::Undrain(args) => drain::undrain(&client, &args).await,
        ResourceCommand::Offline(args) => offline::offline(&client, &args).await,
        ResourceCommand::Online(args) => offline::online(&client, &args).await,
        ResourceCommand::Maintenance(args) => maintenance::run(&client, &args).await,
        ResourceCommand::Reload(args) => reload::run(&client, &args).await,
        ResourceCommand::Eventlog(args) => eventlog::run(&client, &args).await,
    })
}

/// The message of these commands for a refusal.
fn refused(error: &RpcError) -> CliError {
    CliError::failure(format!("[Errno {}] {error}", error.errno))
}
