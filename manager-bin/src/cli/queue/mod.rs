//! `queue`: lists queues, enables, disables, starts and stops them, and waits for their jobs.

mod change;
mod list;
mod name;
mod row;
mod status;
mod wait;

use std::process::ExitCode;

use self::name::COMMAND;
use super::common::session;
use super::common::usage::Family;

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum QueueCommand {
    /// Show whether queues are enabled and started
    Status(status::StatusArgs),
    /// List queues with their limits and resources
    List(list::ListArgs),
    /// Enable the submission of jobs
    Enable(change::EnableArgs),
    /// Disable the submission of jobs
    Disable(change::DisableArgs),
    /// Start the scheduling of jobs
    Start(change::StartArgs),
    /// Stop the scheduling of jobs
    Stop(change::StopArgs),
    /// Wait until no jobs are active
    Drain(wait::DrainArgs),
    /// Wait until no jobs are running
    Idle(wait::IdleArgs),
}

/// Runs the command.
pub(crate) fn run(args: QueueArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        QueueCommand::Status(args) => status::run(&client, &args).await,
        QueueCommand::List(args) => list::run(&client, &args).await,
        QueueCommand::Enable(args) => change::enable(&client, &args).await,
        QueueCommand::Disable(args) => change::disable(&client, &args).await,
        QueueCommand::Start(args) => change::start(&client, &args).await,
        QueueCommand::Stop(args) => change::stop(&client, &args).await,
        QueueCommand::Drain(args) => wait::drain(&client, &args).await,
        QueueCommand::Idle(args) => wait::idle(&client, &args).await,
    })
}
