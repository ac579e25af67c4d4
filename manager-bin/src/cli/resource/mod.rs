//! `resource`: lists resources and nodes, drains nodes, plans their maintenance, and replaces the resources.

mod drain;
mod eventlog;
mod hidden;
mod list;
mod listing;
mod maintenance;
mod messages;
mod offline;
mod reload;
mod selection;
mod status;
mod unavailable;

use std::process::ExitCode;

pub(super) use listing::ListingArgs;
pub(super) use selection::{Queues, included};

use self::messages::COMMAND;
use super::common::session;
use super::common::usage::Family;

/// Arguments of `resource`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResourceArgs {
    #[command(subcommand)]
    command: ResourceCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum ResourceCommand {
    /// List free, allocated and down resources
    List(list::ListArgs),
    /// Print the numbers of nodes, cores and GPUs
    Info(list::InfoArgs),
    /// Show the states of nodes
    Status(status::StatusArgs),
    /// Drain nodes, so that they get no new jobs; without targets, list drained nodes
    Drain(drain::DrainArgs),
    /// Make drained nodes available again
    Undrain(drain::UndrainArgs),
    /// Declare nodes lost: drain them and raise exceptions on their jobs
    Offline(offline::OfflineArgs),
    /// Declare lost nodes online again; they remain drained
    Online(offline::OnlineArgs),
    /// Plan, list and cancel the maintenance of nodes
    Maintenance(maintenance::MaintenanceArgs),
    /// Replace the resources of the instance
    Reload(reload::ReloadArgs),
    /// Print resources as R (RFC 20)
    #[command(name = "R")]
    R(list::RArgs),
    /// Print the events of nodes
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
