//! `queue enable`, `disable`, `start`, `stop`.

use serde_json::{Map, Value, json};

use super::super::message::CliError;
use super::QueueName;
use super::status::{Shown, names, show};
use crate::client::Client;

/// What Flux tells users whom nobody told anything else.
const DEFAULT_REASON: &str = "disabled by administrator";

/// What all four have.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    #[command(flatten)]
    name: QueueName,
    /// All queues
    #[arg(short = 'a', long)]
    all: bool,
    /// Don't show the state
    #[arg(long)]
    quiet: bool,
    /// Show the state of all queues
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
    /// Why, for those whose jobs are refused
    #[arg(short = 'm', long, value_name = "REASON")]
    message: Option<String>,
    /// Taken as elsewhere; a disabled queue is disabled after a restart too
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
    /// Why it is stopped
    #[arg(short = 'm', long, value_name = "REASON")]
    message: Option<String>,
    /// Only until the manager ends
    #[arg(long)]
    nocheckpoint: bool,
}

/// Runs `queue enable`.
pub(super) async fn enable(client: &Client, args: &EnableArgs) -> Result<u8, CliError> {
    set_enable(client, &args.common, true, None).await
}

/// Runs `queue disable`.
pub(super) async fn disable(client: &Client, args: &DisableArgs) -> Result<u8, CliError> {
    let reason = args.message.as_deref().unwrap_or(DEFAULT_REASON);
    set_enable(client, &args.common, false, Some(reason)).await
}

async fn set_enable(
    client: &Client,
    args: &Common,
    enable: bool,
    reason: Option<&str>,
) -> Result<u8, CliError> {
    let name = args.name.get()?;
    let payload = payload(name, args.all, ("enable", enable), reason);
    let answer = client.rpc("job-manager.queue-enable", Value::Object(payload)).await;
    answer.map_err(|error| CliError::failure(format!("enable: {error}")))?;
    finish(client, args, Shown { submission: true, scheduling: false, counts: false }).await
}

/// Runs `queue start`.
pub(super) async fn start(client: &Client, args: &StartArgs) -> Result<u8, CliError> {
    set_start(client, &args.common, true, None, false).await
}

/// Runs `queue stop`.
pub(super) async fn stop(client: &Client, args: &StopArgs) -> Result<u8, CliError> {
    set_start(client, &args.common, false, args.message.as_deref(), args.nocheckpoint).await
}

async fn set_start(
    client: &Client,
    args: &Common,
    start: bool,
    reason: Option<&str>,
    nocheckpoint: bool,
) -> Result<u8, CliError> {
    let name = args.name.get()?;
    if name.is_none() && !args.all && !names(client).await?.is_empty() {
        let text = "Named queues are defined. Specify queues or use --all.";
        return Err(CliError::failure(text));
    }
    let mut payload = payload(name, args.all, ("start", start), reason);
    if nocheckpoint {
        payload.insert("nocheckpoint".to_owned(), json!(true));
    }
    let answer = client.rpc("job-manager.queue-start", Value::Object(payload)).await;
    answer.map_err(|error| CliError::failure(format!("start: {error}")))?;
    let counts = args.verbose;
    finish(client, args, Shown { submission: false, scheduling: true, counts }).await
}

/// Shows what has come of it.
async fn finish(client: &Client, args: &Common, shown: Shown) -> Result<u8, CliError> {
    if !args.quiet {
        let name = args.name.get()?.filter(|_| !args.verbose);
        show(client, name, shown).await?;
    }
    Ok(0)
}

fn payload(
    name: Option<&str>,
    all: bool,
    (what, value): (&str, bool),
    reason: Option<&str>,
) -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert(what.to_owned(), json!(value));
    payload.insert("all".to_owned(), json!(all));
    for (key, text) in [("name", name), ("reason", reason)] {
        if let Some(text) = text {
            payload.insert(key.to_owned(), json!(text));
        }
    }
    payload
}
