//! `uptime`: how long the manager has been there, in one line.

use std::process::ExitCode;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use jobtap_core::job::{Fsd, Timestamp};
use serde_json::{Value, json};

use super::message::CliError;
use super::session;
use super::usage::Family;
use super::users::Users;
use crate::client::Client;

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
    let now = crate::daemon::now();
    let owner = u32::try_from(number("owner") as i64).unwrap_or_default();
    let owner = Users::system().name(owner);
    session::print(&line(now, number("starttime"), &owner, &TimeZone::system()))?;
    // With several queues there is no state of them all to tell of.
    if let Ok(status) = client.rpc("job-manager.queue-status", json!({})).await {
        let off = |key: &str| status.get(key).and_then(Value::as_bool) == Some(false);
        let stopped = [(off("enable"), "submit disabled"), (off("start"), "scheduler stopped")];
        let stopped: Vec<&str> = stopped.iter().filter(|(off, _)| *off).map(|(_, t)| *t).collect();
        if !stopped.is_empty() {
            session::print(&format!("  {}\n", stopped.join(",  ")))?;
        }
    }
    Ok(0)
}

fn line(now: Timestamp, start: f64, owner: &str, zone: &TimeZone) -> String {
    let instant = Instant::from_second(now.as_secs() as i64).unwrap_or(Instant::UNIX_EPOCH);
    let clock = instant.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    let up = Fsd::from_secs((now.as_secs() - start).max(0.0));
    let up = up.map_or_else(|_| "?".to_owned(), |up| up.format_digits(2));
    // A manager runs on one host, below no other one.
    format!(" {clock} run {up},  owner {owner},  depth 0,  size 1\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_state_age_and_owner() {
        let now = Timestamp::from_secs(3_723.0);
        let shown = line(now, 3_723.0 - 5_400.0, "alice", &TimeZone::UTC);
        assert_eq!(shown, " 01:02:03 run 1.5h,  owner alice,  depth 0,  size 1\n");
    }
}
