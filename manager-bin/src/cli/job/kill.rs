//! `job kill`: sends a signal to the tasks of running jobs.

use jobtap_core::job::Signal;

use super::{any_failed, print_message};
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::job_manager::Kill;

/// Options and arguments of `job kill`.
#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// Signal, by name or number
    #[arg(short = 's', long, value_name = "SIG", default_value = "SIGTERM")]
    signal: String,
    /// Job ids
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &KillArgs) -> Result<u8, CliError> {
    let numeric = args.signal.parse::<u32>().is_ok_and(|number| number > 0);
    let signal: Option<Signal> = args.signal.parse().ok();
    if signal.is_none() && !numeric {
        return Err(CliError::failure(format!("kill: Invalid signal {}", args.signal)));
    }
    let mut failed = false;
    for typed in &args.ids {
        let Ok(id) = typed.parse::<jobtap_core::job::JobId>() else {
            print_message(format!("invalid jobid: {typed}"));
            failed = true;
            continue;
        };
        let sent = match signal {
            Some(signal) => {
                let sent = client.call(Kill { id, signum: signal.number().into() }).await;
                sent.map(drop).map_err(|error| error.to_string())
            }
            None => Err("Invalid signal number".to_owned()),
        };
        if let Err(error) = sent {
            print_message(format!("kill {typed}: {error}"));
            failed = true;
        }
    }
    any_failed(failed)
}
