//! `job journal`: watches the events journal and prints each response as a line of JSON.

use serde_json::{Map, Value};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::rpc::services::job_manager::EventsJournal;

/// Options of `job journal`.
#[derive(Debug, clap::Args)]
pub(super) struct JournalArgs {
    /// Begin with the events of all jobs, not only of active ones
    #[arg(long)]
    full: bool,
    /// Print only events with these names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    allow: Vec<String>,
    /// Don't print events with these names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    deny: Vec<String>,
    /// Exit after the events that have been posted before the request
    #[arg(long)]
    past: bool,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &JournalArgs) -> Result<u8, CliError> {
    let request =
        EventsJournal { full: args.full, allow: names(&args.allow), deny: names(&args.deny) };
    let mut journal = client.stream(request).await?;
    while let Some(response) = journal.next().await {
        let response = response?;
        // A response without a job separates past events from new ones.
        if args.past && response.get("id").and_then(Value::as_u64) == Some(EventsJournal::NO_JOB) {
            break;
        }
        session::print(&format!("{response}\n"))?;
    }
    Ok(0)
}

/// The names of events as keys of an object, as the service expects them. `None` without names.
fn names(names: &[String]) -> Option<Value> {
    let names = names.iter().map(|name| (name.clone(), Value::from(1)));
    let names: Map<String, Value> = names.collect();
    (!names.is_empty()).then(|| names.into())
}
