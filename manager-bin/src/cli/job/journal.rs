//! `job journal`: the events of all jobs as the manager posts them, one answer a line.

use serde_json::{Map, Value, json};

use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

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
    let mut payload = Map::from_iter([("full".to_owned(), json!(args.full))]);
    for (key, names) in [("allow", &args.allow), ("deny", &args.deny)] {
        if !names.is_empty() {
            let names = names.iter().map(|name| (name.clone(), json!(1)));
            payload.insert(key.to_owned(), Value::Object(names.collect()));
        }
    }
    let mut journal = client.stream("job-manager.events-journal", payload.into()).await?;
    while let Some(answer) = journal.next().await {
        let answer = answer?;
        if args.past && answer.get("id").and_then(Value::as_u64) == Some(u64::MAX) {
            break;
        }
        session::print(&format!("{answer}\n"))?;
    }
    Ok(0)
}
