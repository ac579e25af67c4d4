//! `slurm`: for sites that come from Slurm.

mod attempt;
mod explain;
mod uses;

use std::process::ExitCode;

use crate::cli::session;
use crate::cli::usage::Family;
use crate::users;

const COMMAND: &str = "slurm";

/// Options and arguments of `slurm`.
#[derive(Debug, clap::Args)]
pub(crate) struct SlurmArgs {
    #[command(subcommand)]
    command: SlurmCommand,
}

/// The commands of `slurm`. Their doc comments are the help texts.
#[derive(Debug, clap::Subcommand)]
enum SlurmCommand {
    /// Say what a job_submit.lua uses, and how it is served here
    Explain(explain::ExplainArgs),
    /// Run a job_submit.lua on a described job, and print what it did
    Try(attempt::TryArgs),
}

/// Runs the command. The exit code is 1 if the script uses what is not served, or refuses the job.
pub(crate) fn run(args: SlurmArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let (text, good) = match &args.command {
            SlurmCommand::Explain(args) => explain::explain(args)?,
            SlurmCommand::Try(args) => {
                let requester = users::requester(args.uid()).await;
                attempt::attempt(args, requester)?
            }
        };
        session::print(&text)?;
        Ok(u8::from(!good))
    })
}
