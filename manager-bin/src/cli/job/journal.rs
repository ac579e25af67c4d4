//! `job journal`: prints the events of all jobs as the manager posts them, one response on each line.

use serde_json::{Map, Value};

use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;
use crate::rpc::services::job_manager::EventsJournal;

/// Options of `job journal`.
#[derive(Debug, clap::Args)]
pub(super) struct JournalArgs {
    /// Begin with the events of all jobs, not only of active ones
    #[arg(long)]
    full: bool,
    /// Only events of these names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    allow: Vec<String>,
    /// No events of these names
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    deny: Vec<String>,
    /// End where the present begins
    #[arg(long)]
    past: bool,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &JournalArgs) -> Result<u8, CliError> {
    let request =
        EventsJournal { full: args.full, allow: names(&args.allow), deny: names(&args.deny) };
    let mut journal = client.stream(request).await?;
    while let Some(answer) = journal.next().await {
        let answer = answer?;
        if args.past && answer.get("id").and_then(Value::as_u64) == Some(EventsJournal::NO_JOB) {
            break;
        }
        session::print(&format!("{answer}\n"))?;
    }
    Ok(0)
}

/// Names of events as the keys of an object; `None` without any.
fn names(names: &[String]) -> Option<Value> {
    let names = names.iter().map(|name| (name.clone(), Value::from(1)));
    let names: Map<String, Value> = names.collect();
    (!names.is_empty()).then(|| names.into())
}
