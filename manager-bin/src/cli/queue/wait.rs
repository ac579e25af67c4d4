//! `queue drain` and `queue idle`: wait until no jobs are active, or until no jobs are running.

use jobtap_core::job::Fsd;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::services::queue::{Drain, Idle, Pending};

/// Options of `queue drain`.
#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// Fail after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
}

/// Options of `queue idle`.
#[derive(Debug, clap::Args)]
pub(super) struct IdleArgs {
    /// Fail after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Don't print the number of pending jobs if it is 0
    #[arg(long)]
    quiet: bool,
}

/// Runs `queue drain`.
pub(super) async fn drain(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    wait("drain", client.call(Drain {}), args.timeout.as_deref()).await?;
    Ok(0)
}

/// Runs `queue idle`, which prints the number of pending jobs.
pub(super) async fn idle(client: &Client, args: &IdleArgs) -> Result<u8, CliError> {
    let Pending { pending } = wait("idle", client.call(Idle {}), args.timeout.as_deref()).await?;
    if pending > 0 || !args.quiet {
        session::print(&format!("{pending} jobs\n"))?;
    }
    Ok(0)
}

/// Waits for the response to a request, at most for `timeout`.
async fn wait<T>(
    command: &str,
    response: impl Future<Output = Result<T, RpcError>>,
    timeout: Option<&str>,
) -> Result<T, CliError> {
    let timeout = timeout.map(str::parse::<Fsd>).transpose();
    let timeout = timeout.map_err(|_| CliError::failure("invalid Flux standard duration"))?;
    let response = match timeout.and_then(Fsd::to_duration) {
        None => response.await,
        Some(timeout) => tokio::time::timeout(timeout, response)
            .await
            .map_err(|_| CliError::failure(format!("{command}: timeout")))?,
    };
    response.map_err(|error| CliError::failure(format!("{command}: {error}")))
}
