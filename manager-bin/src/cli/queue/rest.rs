//! `queue drain` and `queue idle`: wait until no job is active, or until none runs.

use jobtap_core::job::Fsd;

use super::super::message::CliError;
use super::super::session;
use crate::client::{Client, RpcError};
use crate::rpc::services::queue::{Drain, Idle, Pending};

/// Options of `queue drain`.
#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// Give up after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
}

/// Options of `queue idle`.
#[derive(Debug, clap::Args)]
pub(super) struct IdleArgs {
    /// Give up after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Don't say that no jobs are pending
    #[arg(long)]
    quiet: bool,
}

/// Waits until no job is active.
pub(super) async fn drain(client: &Client, args: &DrainArgs) -> Result<u8, CliError> {
    rest("drain", client.call(Drain {}), args.timeout.as_deref()).await?;
    Ok(0)
}

/// Waits until no job runs, and prints how many are pending.
pub(super) async fn idle(client: &Client, args: &IdleArgs) -> Result<u8, CliError> {
    let Pending { pending } = rest("idle", client.call(Idle {}), args.timeout.as_deref()).await?;
    if pending > 0 || !args.quiet {
        session::print(&format!("{pending} jobs\n"))?;
    }
    Ok(0)
}

/// Waits for the response to a request, no longer than `timeout`.
async fn rest<T>(
    what: &str,
    answer: impl Future<Output = Result<T, RpcError>>,
    timeout: Option<&str>,
) -> Result<T, CliError> {
    let timeout = timeout.map(str::parse::<Fsd>).transpose();
    let timeout = timeout.map_err(|_| CliError::failure("invalid Flux standard duration"))?;
    let answer = match timeout.and_then(Fsd::to_duration) {
        None => answer.await,
        Some(timeout) => tokio::time::timeout(timeout, answer)
            .await
            .map_err(|_| CliError::failure(format!("{what}: timeout")))?,
    };
    answer.map_err(|error| CliError::failure(format!("{what}: {error}")))
}
