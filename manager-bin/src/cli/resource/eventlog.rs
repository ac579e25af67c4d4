//! `resource eventlog`: prints the events of nodes.

use std::time::Duration;

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::Fsd;
use jobtap_core::resource::{Idset, ResourceSet};

use super::list::resources;
use super::refused;
use super::selection::included;
use crate::cli::common::message::CliError;
use crate::cli::job::FormatArgs;
use crate::cli::job::has_context;
use crate::client::Client;
use crate::rpc::services::resource::{GetStatus, Journal};

/// Options of `resource eventlog`.
#[derive(Debug, clap::Args)]
pub(super) struct EventlogArgs {
    #[command(flatten)]
    format: FormatArgs,
    /// Print new events as they are posted
    #[arg(short = 'F', long)]
    follow: bool,
    /// Wait for this event and print it; with --follow, print all events before it as well
    #[arg(short = 'w', long, value_name = "EVENT")]
    wait: Option<String>,
    /// Match only events whose context has this value
    #[arg(short = 'm', long, value_name = "KEY=VAL", requires = "wait")]
    match_context: Option<String>,
    /// Fail after this time
    #[arg(short = 't', long, value_name = "FSD")]
    timeout: Option<String>,
    /// Print only events of these nodes
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    include: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &EventlogArgs) -> Result<u8, CliError> {
    let Some(timeout) = &args.timeout else {
        return print(client, args).await;
    };
    let invalid = || CliError::failure(format!("invalid timeout: {timeout}"));
    let limit: Fsd = timeout.parse().map_err(|_| invalid())?;
    let Some(limit) = limit.to_duration().filter(|limit| *limit > Duration::ZERO) else {
        return print(client, args).await;
    };
    match tokio::time::timeout(limit, print(client, args)).await {
        Ok(result) => result,
        Err(_) => {
            let text = format!("eventlog: timeout after {timeout}");
            Err(CliError::failure(text))
        }
    }
}

async fn print(client: &Client, args: &EventlogArgs) -> Result<u8, CliError> {
    let wanted = match &args.match_context {
        None => None,
        Some(text) => Some(
            text.split_once('=')
                .ok_or_else(|| CliError::failure("must specify a context test as key=value"))?,
        ),
    };
    let ranks = match &args.include {
        None => None,
        Some(text) => {
            let status = client.call(GetStatus {}).await.map_err(|error| refused(&error))?;
            let all: ResourceSet = resources("R", &status.r)?;
            Some(included(text, &all)?)
        }
    };
    let mut printer = args.format.printer()?;
    let mut responses = client.stream(Journal {}).await.map_err(|error| refused(&error))?;
    // The first response contains all events so far, the others contain new events.
    while let Some(response) = responses.next().await {
        for event in response.map_err(|error| refused(&error))?.events {
            if !ranks.as_ref().is_none_or(|ranks| concerns(&event, ranks)) {
                printer.skip(&event);
                continue;
            }
            let found = args.wait.as_deref().is_some_and(|name| {
                event.name == name && wanted.is_none_or(|test| has_context(&event, test))
            });
            if found || args.wait.is_none() || args.follow {
                printer.print(&event)?;
            } else {
                printer.skip(&event);
            }
            if found {
                return Ok(0);
            }
        }
        if !args.follow && args.wait.is_none() {
            break;
        }
    }
    Ok(0)
}

/// Returns true if the event is about one of the nodes. Events without nodes are about all of them.
fn concerns(event: &EventEntry, ranks: &Idset) -> bool {
    let idset = event.context.as_ref().and_then(|context| context.get("idset"));
    let idset: Option<Idset> = idset.and_then(|idset| idset.as_str()?.parse().ok());
    idset.is_none_or(|idset| idset.intersects(ranks))
}
