//! `queue enable`, `queue disable`, `queue start` and `queue stop`: change the state of queues.

use super::name::QueueName;
use super::status::{Shown, names, show};
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::queue::{Enable, Start};

/// Flux's reason for a queue that is disabled without one.
const DEFAULT_REASON: &str = "disabled by administrator";

/// The options of all four commands.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    #[command(flatten)]
    name: QueueName,
    /// Apply to all queues
    #[arg(short = 'a', long)]
    all: bool,
    /// Don't print the state of the queues
    #[arg(long)]
    quiet: bool,
    /// Print the state of all queues
    #[arg(short = 'v', long)]
    verbose: bool,
}

/// Options of `queue enable`.
#[derive(Debug, clap::Args)]
pub(super) struct EnableArgs {
    #[command(flatten)]
    common: Common,
}

/// Options of `queue disable`.
#[derive(Debug, clap::Args)]
pub(super) struct DisableArgs {
    #[command(flatten)]
    common: Common,
    /// Reason, which users see whose jobs are refused
    #[arg(short = 'm', long, value_name = "REASON")]
    message: Option<String>,
    /// Accepted without effect: a disabled queue remains disabled after a restart
    #[arg(long)]
    nocheckpoint: bool,
}

/// Options of `queue start`.
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    common: Common,
}

/// Options of `queue stop`.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    common: Common,
    /// Reason why the queue is stopped
    #[arg(short = 'm', long, value_name = "REASON")]
    message: Option<String>,
    /// Start the queue again when the manager restarts
    #[arg(long)]
    nocheckpoint: bool,
}

/// Runs `queue enable`.
pub(super) async fn enable(client: &Client, args: &EnableArgs) -> Result<u8, CliError> {
    set_enable(client, &args.common, true, None).await
}

/// Runs `queue disable`.
pub(super) async fn disable(client: &Client, args: &DisableArgs) -> Result<u8, CliError> {
    let reason = reason(&args.message).unwrap_or(DEFAULT_REASON);
    set_enable(client, &args.common, false, Some(reason)).await
}

/// The reason that is given. An empty one counts as none.
fn reason(message: &Option<String>) -> Option<&str> {
    message.as_deref().filter(|text| !text.is_empty())
}

async fn set_enable(
    client: &Client,
    args: &Common,
    enable: bool,
    reason: Option<&str>,
) -> Result<u8, CliError> {
    let name = args.name.get()?.map(str::to_owned);
    let reason = reason.map(str::to_owned);
    let response = client.call(Enable { name, all: args.all, enable, reason }).await;
    response.map_err(|error| CliError::failure(format!("enable: {error}")))?;
    finish(client, args, Shown { submission: true, scheduling: false, counts: false }).await
}

/// Runs `queue start`.
pub(super) async fn start(client: &Client, args: &StartArgs) -> Result<u8, CliError> {
    set_start(client, &args.common, true, None, false).await
}

/// Runs `queue stop`.
pub(super) async fn stop(client: &Client, args: &StopArgs) -> Result<u8, CliError> {
    set_start(client, &args.common, false, reason(&args.message), args.nocheckpoint).await
}

async fn set_start(
    client: &Client,
    args: &Common,
    start: bool,
    reason: Option<&str>,
    nocheckpoint: bool,
) -> Result<u8, CliError> {
    let name = args.name.get()?;
    // As in Flux, the client checks this for `start` and `stop`, the manager for `enable` and `disable`.
    if name.is_none() && !args.all && !names(client).await?.is_empty() {
        let text = "Named queues are defined. Specify queues or use --all.";
        return Err(CliError::failure(text));
    }
    let request = Start {
        name: name.map(str::to_owned),
        all: args.all,
        start,
        reason: reason.map(str::to_owned),
        nocheckpoint,
    };
    let response = client.call(request).await;
    response.map_err(|error| CliError::failure(format!("start: {error}")))?;
    let counts = args.verbose;
    finish(client, args, Shown { submission: false, scheduling: true, counts }).await
}

/// Prints the state of the queues after the change.
async fn finish(client: &Client, args: &Common, shown: Shown) -> Result<u8, CliError> {
    if !args.quiet {
        let name = args.name.get()?.filter(|_| !args.verbose);
        show(client, name, shown).await?;
    }
    Ok(0)
}
