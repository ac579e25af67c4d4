//! `resource offline` and `online`: nodes that are lost, and found again.

use serde_json::json;

use super::drain::joined;
use super::refused;
use crate::cli::message::CliError;
use crate::client::Client;

/// Arguments of `resource offline`.
#[derive(Debug, clap::Args)]
pub(super) struct OfflineArgs {
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
    /// Why
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

/// Arguments of `resource online`.
#[derive(Debug, clap::Args)]
pub(super) struct OnlineArgs {
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
}

/// Runs `resource offline`.
pub(super) async fn offline(client: &Client, args: &OfflineArgs) -> Result<u8, CliError> {
    let payload = json!({ "targets": args.targets, "reason": joined(&args.reason) });
    client.rpc("resource.offline", payload).await.map_err(|error| refused(&error))?;
    Ok(0)
}

/// Runs `resource online`.
pub(super) async fn online(client: &Client, args: &OnlineArgs) -> Result<u8, CliError> {
    let payload = json!({ "targets": args.targets });
    client.rpc("resource.online", payload).await.map_err(|error| refused(&error))?;
    Ok(0)
}
