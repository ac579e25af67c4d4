//! `accounting`: what finished jobs have used, as lines of JSON for programs and as a report in the form of Slurm's
//! sacct for people. Neither holds the jobs in memory: each job is written as soon as it is read. Only `sacct` itself,
//! which lists jobs by their ids, keeps its lines.

mod columns;
mod export;
mod finished;
mod report;
mod select;
mod totals;

use std::process::ExitCode;

pub(in crate::cli) use self::columns::{exit_code, span};
pub(in crate::cli) use self::finished::display;
pub(in crate::cli) use self::report::{ReportArgs, SlurmReport};
pub(in crate::cli) use self::select::SelectArgs;

use crate::cli::common::session;
use crate::cli::common::usage::Family;

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
    Report(ReportArgs),
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
