//! `job-exec-override`: begins and ends a simulated job by hand (`exec.test.override`).

use std::process::ExitCode;

use jobtap_core::job::JobId;
use serde_json::json;

use super::session;
use super::usage::Family;

const COMMAND: &str = "job-exec-override";

/// Arguments of `job-exec-override`.
#[derive(Debug, clap::Args)]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    command: OverrideCommand,
}

/// One line per subcommand.
#[derive(Debug, clap::Subcommand)]
enum OverrideCommand {
    /// Let the job start
    Start {
        /// The job
        #[arg(value_name = "JOBID")]
        id: JobId,
    },
    /// Let the job end
    Finish {
        /// The job
        #[arg(value_name = "JOBID")]
        id: JobId,
        /// Its wait status
        #[arg(value_name = "STATUS")]
        status: i32,
    },
}

/// Runs the command.
pub(crate) fn run(args: OverrideArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async move |client| {
        let payload = match args.command {
            OverrideCommand::Start { id } => json!({ "jobid": id, "event": "start" }),
            OverrideCommand::Finish { id, status } => {
                json!({ "jobid": id, "event": "finish", "status": status })
            }
        };
        client.rpc("job-exec.override", payload).await?;
        Ok(0u8)
    })
}
