//! `uptime`: shows manager uptime, with its owner, nodes, and whether queues are disabled or stopped.

use std::process::ExitCode;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use jobtap_core::job::{Fsd, Timestamp};
use jobtap_core::resource::Idset;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::rpc::services::attr;
use crate::rpc::services::job_manager::{GetUptime, Uptime};
use crate::rpc::services::queue::{GetOverview, Overview, Queue};
use crate::rpc::services::resource::{GetStatus, Status};
use crate::users::Users;

/// Options of `uptime`.
#[derive(Debug, clap::Args)]
pub(crate) struct UptimeArgs {}

/// Runs the command.
pub(crate) fn run(_args: UptimeArgs) -> ExitCode {
    session::with_manager("uptime", Family::Compiled, async |client| uptime(&client).await)
}

async fn uptime(client: &Client) -> Result<u8, CliError> {
    let Uptime { starttime, owner } = client.call(GetUptime {}).await?;
    let owner = Users::system().name(owner.as_u32());
    let nodes = Nodes::from_status(&client.call(GetStatus {}).await?);
    let now = crate::daemon::now();
    let name = "instance-level".to_owned();
    let depth = client.call(attr::Get { name }).await?.value;
    session::print(&line(now, starttime, (&owner, &depth), nodes, &TimeZone::system()))?;
    session::print(&queue_state(&client.call(GetOverview {}).await?))?;
    Ok(0)
}

/// The numbers of all, drained and offline nodes.
#[derive(Clone, Copy)]
struct Nodes {
    size: usize,
    drained: usize,
    offline: usize,
}

impl Nodes {
    fn from_status(status: &Status) -> Self {
        let size = |ranks: &str| ranks.parse::<Idset>().map_or(0, |ranks| ranks.len());
        let drained = status.drain.iter().map(|(ranks, _)| size(ranks)).sum();
        let (online, offline) = (size(&status.online), size(&status.offline));
        Self { size: online + offline, drained, offline }
    }
}

/// The line about the manager, which was started at the time `start`. `depth` is its level in the hierarchy of
/// managers.
fn line(
    now: Timestamp,
    start: f64,
    (owner, depth): (&str, &str),
    nodes: Nodes,
    zone: &TimeZone,
) -> String {
    let instant = Instant::from_second(now.as_secs() as i64).unwrap_or(Instant::UNIX_EPOCH);
    let clock = instant.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    let up = Fsd::from_secs((now.as_secs() - start).max(0.0));
    let up = up.map_or_else(|_| "?".to_owned(), |up| up.format_digits(2));
    let Nodes { size, drained, offline } = nodes;
    let out = [(drained, "drained"), (offline, "offline")].into_iter();
    let out = out.filter(|(count, _)| *count > 0).map(|(count, what)| format!(",  {count} {what}"));
    let out = out.collect::<String>();
    format!(" {clock} run {up},  owner {owner},  depth {depth},  size {size}{out}\n")
}

/// The line that says that all queues are disabled or stopped. Empty if neither is the case.
fn queue_state(overview: &Overview) -> String {
    let all =
        |off: fn(&Queue) -> bool| !overview.queues.is_empty() && overview.queues.iter().all(off);
    let disabled = all(|queue| queue.status.enable == Some(false));
    let stopped = all(|queue| queue.status.start == Some(false));
    let stopped = [(disabled, "submit disabled"), (stopped, "scheduler stopped")];
    let stopped: Vec<&str> =
        stopped.iter().filter(|(off, _)| *off).map(|(_, text)| *text).collect();
    if stopped.is_empty() { String::new() } else { format!("  {}\n", stopped.join(",  ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn one_line_shows_time_uptime_owner_and_size() {
        let now = Timestamp::from_secs(3_723.0);
        let shown = |status: Value| {
            let nodes = Nodes::from_status(&serde_json::from_value(status).unwrap());
            line(now, 3_723.0 - 5_400.0, ("alice", "0"), nodes, &TimeZone::UTC)
        };
        let start = " 01:02:03 run 1.5h,  owner alice,  depth 0,  ";
        assert_eq!(shown(json!({"online": "0"})), format!("{start}size 1\n"));
        let some = json!({"online": "0-5", "offline": "6-7", "drain": {"0-1": {}, "4": {}}});
        assert_eq!(shown(some), format!("{start}size 8,  3 drained,  2 offline\n"));
    }

    #[test]
    fn only_the_state_of_all_queues_is_shown() {
        let queue = |enable, start| json!({"enable": enable, "start": start});
        let shown = |queues: &[Value]| {
            queue_state(&serde_json::from_value(json!({ "queues": queues })).unwrap())
        };
        assert_eq!(shown(&[queue(true, false), queue(true, true)]), "");
        assert_eq!(shown(&[queue(true, false), queue(false, false)]), "  scheduler stopped\n");
        assert_eq!(shown(&[queue(false, false)]), "  submit disabled,  scheduler stopped\n");
    }
}
