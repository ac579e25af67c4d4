//! `accounting`: what finished jobs have used, as lines of JSON for programs and as a report in the form of Slurm's
//! sacct for people. Neither keeps the jobs: each is written as it is read.

mod columns;
mod export;
mod report;
mod select;
mod totals;

use std::process::ExitCode;

use jiff::tz::TimeZone;

use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::CliError;
use crate::cli::common::usage::Family;
use crate::cli::common::{session, when};
use crate::cli::jobs::row::{DisplayContext, JobRow};
use crate::client::Client;
use crate::client::listing::{ListError, list_jobs};
use crate::rpc::services::job_list::List;
use crate::users::Users;

const COMMAND: &str = "accounting";

/// Arguments of `accounting`.
#[derive(Debug, clap::Args)]
pub(crate) struct AccountingArgs {
    #[command(subcommand)]
    command: AccountingCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum AccountingCommand {
    /// Write a line of JSON for each finished job
    Export(export::ExportArgs),
    /// Report jobs in the form of Slurm's sacct, or totals by user and queue
    Report(report::ReportArgs),
}

/// Runs the command.
pub(crate) fn run(args: AccountingArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        match args.command {
            AccountingCommand::Export(args) => export::run(&args),
            AccountingCommand::Report(args) => report::run(&args),
        }
    })
}

fn display() -> DisplayContext {
    DisplayContext {
        now: when::now(),
        zone: TimeZone::system(),
        ids: IdStyle::current(),
        users: Users::system(),
    }
}

/// Hands each job that the manager lists to `take`.
fn each_job(
    request: &List,
    display: &DisplayContext,
    mut take: impl FnMut(&JobRow<'_>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let taken = |job| {
        let row = JobRow::from_json(job, display).map_err(CliError::failure)?;
        take(&row)
    };
    let socket = Client::socket()?;
    list_jobs(&socket, request, taken).map_err(|error| match error {
        ListError::Stopped(error) => error,
        error => CliError::failure(error),
    })
}
