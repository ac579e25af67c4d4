//! `job-exec-override`: posts the events `start` and `finish` of a simulated job with `exec.test.override`.

use std::process::ExitCode;

use jobtap_core::job::JobId;

use super::common::session;
use super::common::usage::Family;
use crate::rpc::services::job_exec::Override;

const COMMAND: &str = "job-exec-override";

/// Arguments of `job-exec-override`.
#[derive(Debug, clap::Args)]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    command: OverrideCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum OverrideCommand {
    /// Post the event start
    Start {
        /// Job id
        #[arg(value_name = "JOBID")]
        id: JobId,
    },
    /// Post the event finish
    Finish {
        /// Job id
        #[arg(value_name = "JOBID")]
        id: JobId,
        /// Wait status of the job
        #[arg(value_name = "STATUS")]
        status: i32,
    },
}

/// Runs the command.
pub(crate) fn run(args: OverrideArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async move |client| {
        let (jobid, event, status) = match args.command {
            OverrideCommand::Start { id } => (id, "start", None),
            OverrideCommand::Finish { id, status } => (id, "finish", Some(status)),
        };
        client.call(Override { jobid, event: event.to_owned(), status }).await?;
        Ok(0u8)
    })
}
