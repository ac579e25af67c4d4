//! `resource reload`: replaces the resources of the instance.

use std::path::PathBuf;

use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use super::messages::refused;
use crate::cli::common::message::{CliError, system_text};
use crate::client::Client;
use crate::files::input;
use crate::rpc::services::resource::Reload;

/// Options and arguments of `resource reload`.
#[derive(Debug, clap::Args)]
pub(super) struct ReloadArgs {
    /// Succeed even if jobs have resources that the new R doesn't contain
    #[arg(short = 'f', long)]
    force: bool,
    /// File with R (RFC 20)
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &ReloadArgs) -> Result<u8, CliError> {
    let path = args.path.display();
    let text = input::text(&args.path)
        .map_err(|error| CliError::failure(format!("{path}: {}", system_text(&error))))?;
    let set: ResourceSet =
        text.parse().map_err(|error| CliError::failure(format!("{path}: {error}")))?;
    let r: Value = serde_json::from_str(&set.to_json())
        .map_err(|error| CliError::failure(format!("{path}: {error}")))?;
    client.call(Reload { r, force: args.force }).await.map_err(|error| refused(&error))?;
    Ok(0)
}
