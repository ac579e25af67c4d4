//! `resource offline` and `resource online`: declare nodes lost, and online again.

use super::drain::joined;
use super::messages::refused;
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::resource::{Offline, Online};

/// Arguments of `resource offline`.
#[derive(Debug, clap::Args)]
pub(super) struct OfflineArgs {
    /// Ranks or hosts
    #[arg(value_name = "TARGETS")]
    targets: String,
    /// Reason
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
    let request = Offline { targets: args.targets.clone(), reason: joined(&args.reason) };
    client.call(request).await.map_err(|error| refused(&error))?;
    Ok(0)
}

/// Runs `resource online`.
pub(super) async fn online(client: &Client, args: &OnlineArgs) -> Result<u8, CliError> {
    client.call(Online { targets: args.targets.clone() }).await.map_err(|error| refused(&error))?;
    Ok(0)
}
