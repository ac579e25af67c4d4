//! `sacct`: the report of `accounting report` with the options of Slurm's command, and with its ids.

use std::process::ExitCode;

use super::squeue::named;
use crate::cli::accounting::{self, Sacct};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;

const COMMAND: &str = "sacct";

/// Options of `sacct`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    after_help = "Left out: steps (their lines and fields), -B, -c, -f, reservations and clusters."
)]
pub(crate) struct SacctArgs {
    /// Only these jobs: ID, or ID_3, ID_[1-4] of an array
    #[arg(short = 'j', long, value_name = "ID,..")]
    jobs: Vec<String>,
    #[command(flatten)]
    report: Sacct,
}

/// Runs the command.
pub(crate) fn run(args: SacctArgs) -> ExitCode {
    session::run(COMMAND, Family::Slurm, async {
        let named = named(&args.jobs)?;
        if named.is_empty() {
            return accounting::sacct(args.report, None);
        }
        let client = Client::connect().await?;
        let mut jobs = Vec::new();
        for named in &named {
            jobs.extend(named.jobs(&client).await?);
        }
        accounting::sacct(args.report, Some(&jobs))
    })
}
