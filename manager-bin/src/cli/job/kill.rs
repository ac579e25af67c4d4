//! `job kill`: sends a signal to the tasks of running jobs.

use std::str::FromStr;

use jobtap_core::job::Signal;

use super::several::{any_failed, print_message, until_repeated};
use crate::cli::common::arrays;
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_manager::Kill;

/// Options and arguments of `job kill`.
#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// Signal, by name or number
    #[arg(
        short = 's',
        long,
        value_name = "SIG",
        default_value = "SIGTERM",
        allow_negative_numbers = true
    )]
    signal: String,
    /// Job ids
    #[arg(value_name = "JOBID", required = true)]
    ids: Vec<String>,
}

/// Why no signal was sent to a job.
#[derive(Debug, thiserror::Error)]
enum KillError {
    #[error("Invalid signal number")]
    Signal,
    #[error(transparent)]
    Refused(#[from] RpcError),
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &KillArgs) -> Result<u8, CliError> {
    let numeric = args.signal.parse::<u32>().is_ok_and(|number| number > 0);
    let signal: Option<Signal> = args.signal.parse().ok();
    if signal.is_none() && !numeric {
        return Err(CliError::failure(format!("kill: Invalid signal {}", args.signal)));
    }
    // All ids are read before the first signal, so that nothing is sent if one of them is invalid.
    let mut targets = Vec::with_capacity(args.ids.len());
    for typed in &args.ids {
        targets.push(match typed.ends_with(']') {
            true => arrays::target(typed, client).await?,
            false => Target::from_str(typed)
                .map_err(|_| CliError::failure(format!("invalid jobid: {typed}")))?,
        });
    }
    let (targets, repeated) = until_repeated(&targets);
    let responses: Vec<Result<(), KillError>> = match signal {
        Some(signal) => {
            let signum = signal.number().into();
            let requests = targets.iter().map(|target| Kill::all(target.id, signum));
            let responses = client.call_all(requests).await.into_iter();
            responses.map(|sent| Ok(sent.map(drop)?)).collect()
        }
        None => targets.iter().map(|_| Err(KillError::Signal)).collect(),
    };
    if repeated {
        return Err(CliError::failure("flux_job_kill: File exists"));
    }
    let mut failed = false;
    for (target, response) in targets.iter().zip(responses) {
        if let Err(error) = response {
            print_message(format!("kill {}: {error}", target.typed));
            failed = true;
        }
    }
    any_failed(failed)
}
