//! `uptime`: how long the manager has been there, in one line.

use std::process::ExitCode;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use jobtap_core::job::{Fsd, Timestamp};
use jobtap_core::resource::Idset;
use serde_json::{Value, json};

use super::message::CliError;
use super::session;
use super::usage::Family;
use crate::client::Client;
use crate::users::Users;

/// Options of `uptime`.
#[derive(Debug, clap::Args)]
pub(crate) struct UptimeArgs {}

/// Runs the command.
pub(crate) fn run(_args: UptimeArgs) -> ExitCode {
    session::with_manager("uptime", Family::Compiled, async |client| uptime(&client).await)
}

async fn uptime(client: &Client) -> Result<u8, CliError> {
    let answer = client.rpc("job-manager.uptime", json!({})).await?;
    let number = |key: &str| answer.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let owner = Users::system().name(number("owner") as u32);
    let nodes = client.rpc("resource.status", json!({})).await?;
    let nodes = Nodes::from_status(&nodes);
    let (now, start) = (crate::daemon::now(), number("starttime"));
    session::print(&line(now, start, &owner, nodes, &TimeZone::system()))?;
    let queues = client.rpc("job-manager.queue-overview", json!({})).await?;
    session::print(&standstill(&queues))?;
    Ok(0)
}

/// How many nodes there are, and how many of them are out of use.
#[derive(Clone, Copy)]
struct Nodes {
    size: usize,
    drained: usize,
    offline: usize,
}

impl Nodes {
    fn from_status(status: &Value) -> Self {
        let ranks = |value: Option<&Value>| -> usize {
            let ids = value.and_then(Value::as_str).and_then(|ids| ids.parse::<Idset>().ok());
            ids.map_or(0, |ids| ids.len())
        };
        let drain = status.get("drain").and_then(Value::as_object);
        let drained = drain.into_iter().flat_map(|drain| drain.keys());
        let drained = drained.filter_map(|ranks| Some(ranks.parse::<Idset>().ok()?.len())).sum();
        let (online, offline) = (ranks(status.get("online")), ranks(status.get("offline")));
        Self { size: online + offline, drained, offline }
    }
}

fn line(now: Timestamp, start: f64, owner: &str, nodes: Nodes, zone: &TimeZone) -> String {
    let instant = Instant::from_second(now.as_secs() as i64).unwrap_or(Instant::UNIX_EPOCH);
    let clock = instant.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    let up = Fsd::from_secs((now.as_secs() - start).max(0.0));
    let up = up.map_or_else(|_| "?".to_owned(), |up| up.format_digits(2));
    let Nodes { size, drained, offline } = nodes;
    let out = [(drained, "drained"), (offline, "offline")].into_iter();
    let out = out.filter(|(count, _)| *count > 0).map(|(count, what)| format!(",  {count} {what}"));
    // A manager is below no other one.
    let out = out.collect::<String>();
    format!(" {clock} run {up},  owner {owner},  depth 0,  size {size}{out}\n")
}

/// What no queue does at present.
fn standstill(queues: &Value) -> String {
    let queues = queues.get("queues").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let none = |key: &str| {
        let off = |queue: &Value| queue.get(key).and_then(Value::as_bool) == Some(false);
        !queues.is_empty() && queues.iter().all(off)
    };
    let stopped = [(none("enable"), "submit disabled"), (none("start"), "scheduler stopped")];
    let stopped: Vec<&str> =
        stopped.iter().filter(|(off, _)| *off).map(|(_, text)| *text).collect();
    if stopped.is_empty() { String::new() } else { format!("  {}\n", stopped.join(",  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_state_age_owner_and_size() {
        let now = Timestamp::from_secs(3_723.0);
        let shown = |status: Value| {
            let nodes = Nodes::from_status(&status);
            line(now, 3_723.0 - 5_400.0, "alice", nodes, &TimeZone::UTC)
        };
        let start = " 01:02:03 run 1.5h,  owner alice,  depth 0,  ";
        assert_eq!(shown(json!({"online": "0"})), format!("{start}size 1\n"));
        let some = json!({"online": "0-5", "offline": "6-7", "drain": {"0-1": {}, "4": {}}});
        assert_eq!(shown(some), format!("{start}size 8,  3 drained,  2 offline\n"));
    }

    #[test]
    fn only_what_holds_for_all_queues_is_told() {
        let queue = |enable, start| json!({"enable": enable, "start": start});
        let told = |queues: &[Value]| standstill(&json!({ "queues": queues }));
        assert_eq!(told(&[queue(true, false), queue(true, true)]), "");
        assert_eq!(told(&[queue(true, false), queue(false, false)]), "  scheduler stopped\n");
        assert_eq!(told(&[queue(false, false)]), "  submit disabled,  scheduler stopped\n");
    }
}
