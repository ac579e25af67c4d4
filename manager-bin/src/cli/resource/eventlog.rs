//! `resource eventlog`: prints the events of nodes.

use std::time::Duration;

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::Fsd;
use jobtap_core::resource::{Hostlist, Idset, ResourceSet};

use super::messages::refused;
use crate::cli::common::message::CliError;
use crate::cli::common::resources::resources;
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
    /// Match only events whose context has this value; repeated, all of them
    #[arg(short = 'm', long, value_name = "KEY=VAL", requires = "wait")]
    match_context: Vec<String>,
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
    let test = |text: &'_ String| {
        let test = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        test.ok_or_else(|| CliError::failure("must specify a context test as key=value"))
    };
    let wanted: Vec<(String, String)> =
        args.match_context.iter().map(test).collect::<Result<_, _>>()?;
    let ranks = match &args.include {
        None => None,
        Some(text) => {
            let status = client.call(GetStatus {}).await.map_err(|error| refused(&error))?;
            Some(targets(text, &resources("R", &status.r)?)?)
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
                event.name == name
                    && wanted.iter().all(|(key, value)| has_context(&event, (key, value)))
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

/// The ranks of the nodes whose events are wanted. They must exist: a misspelled one would be awaited forever.
fn targets(text: &str, all: &ResourceSet) -> Result<Idset, CliError> {
    if let Ok(ranks) = text.parse::<Idset>() {
        let unknown = ranks.difference(&all.ranks());
        return match unknown.is_empty() {
            true => Ok(ranks),
            false => Err(CliError::failure(format!("--include: ranks out of range: {unknown}"))),
        };
    }
    let invalid = |_| CliError::failure(format!("invalid targets {text}"));
    let hosts: Hostlist = text.parse().map_err(invalid)?;
    let unknown = all.unknown_hosts(&hosts);
    match unknown.len() {
        0 => Ok(all.ranks_on(&hosts)),
        1 => Err(CliError::failure(format!("host '{unknown}' not found"))),
        _ => Err(CliError::failure(format!("hosts '{unknown}' not found"))),
    }
}

/// Returns true if the event names one of the nodes, in `idset` or, in the first event of a manager's run, in `ranks`.
fn concerns(event: &EventEntry, ranks: &Idset) -> bool {
    let field = |key| event.context.as_ref()?.get(key)?.as_str();
    let named = field("idset").or_else(|| field("ranks"));
    let named = named.and_then(|ranks| ranks.parse::<Idset>().ok());
    named.is_some_and(|named| named.intersects(ranks))
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Timestamp;
    use serde_json::json;

    use super::*;

    fn nodes() -> ResourceSet {
        let execution = json!({
            "R_lite": [{"rank": "0-3", "children": {"core": "0"}}],
            "nodelist": ["n[0-3]"],
        });
        resources("R", &json!({"version": 1, "execution": execution})).unwrap()
    }

    #[test]
    fn nodes_that_are_asked_for_have_to_exist() {
        let ask = |text: &str| targets(text, &nodes()).map_err(|error| error.text);
        assert_eq!(ask("1-2").unwrap().to_string(), "1-2");
        assert_eq!(ask("n[0,3]").unwrap().to_string(), "0,3");
        assert!(ask("").unwrap().is_empty());
        assert_eq!(ask("2-5").unwrap_err(), "--include: ranks out of range: 4-5");
        assert_eq!(ask("n7").unwrap_err(), "host 'n7' not found");
        assert_eq!(ask("n0,x,n7").unwrap_err(), "hosts 'x,n7' not found");
        assert_eq!(ask("[").unwrap_err(), "invalid targets [");
    }

    #[test]
    fn an_event_concerns_the_nodes_that_it_names_and_no_others() {
        let event = |context| {
            let serde_json::Value::Object(context) = context else { panic!("{context}") };
            let context = Some(context.into());
            EventEntry { timestamp: Timestamp::from_secs(1.0), name: "drain".into(), context }
        };
        let ranks = Idset::from(2..=3);
        assert!(concerns(&event(json!({"idset": "0,3"})), &ranks));
        assert!(concerns(&event(json!({"ranks": "0-3", "online": ""})), &ranks));
        assert!(!concerns(&event(json!({"idset": "0-1"})), &ranks));
        assert!(!concerns(&event(json!({"method": "configuration"})), &ranks));
    }
}
