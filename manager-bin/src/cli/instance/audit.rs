//! `audit`: prints who changed the instance, when, and with what result. `startlog`: prints when managers
//! started and finished, from the same eventlog.

use std::process::ExitCode;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use jobtap_core::eventlog::{EventEntry, decode_log};
use jobtap_core::job::{Fsd, Timestamp};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::job::FormatArgs;
use crate::client::{Client, RpcError};
use crate::daemon::AUDIT_LOG as KEY;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::kvs::Lookup;

/// Options of `audit`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    format: FormatArgs,
    /// Print only events with these names, such as config-load or queue-stop
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Options of `startlog`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct StartlogArgs {
    /// Exit with 1 if the previous run crashed
    #[arg(long)]
    check: bool,
    /// Print nothing
    #[arg(long)]
    quiet: bool,
    /// Print the version of each run
    #[arg(short = 'v', long)]
    show_version: bool,
}

/// Runs `audit`.
pub(crate) fn run(args: AuditArgs) -> ExitCode {
    session::with_manager("audit", Family::Compiled, async |client| {
        let mut printer = args.format.printer()?;
        for event in events(&client).await? {
            if args.names.is_empty() || args.names.iter().any(|name| *name == event.name) {
                printer.print(&event)?;
            } else {
                printer.skip(&event);
            }
        }
        Ok(0)
    })
}

/// Runs `startlog`.
pub(crate) fn startlog(args: StartlogArgs) -> ExitCode {
    session::with_manager("startlog", Family::Compiled, async |client| {
        let runs = runs(&events(&client).await?);
        if !args.quiet {
            let now = crate::daemon::now();
            let lines = runs.iter().enumerate().map(|(number, run)| {
                run.line(number + 1 == runs.len(), now, args.show_version, &TimeZone::system())
            });
            session::print(&lines.collect::<String>())?;
        }
        // The last run is that of the manager that responds, and hasn't finished yet.
        let crashed = runs.iter().rev().nth(1).is_some_and(|run| run.end.is_none());
        Ok(u8::from(args.check && crashed))
    })
}

async fn events(client: &Client) -> Result<Vec<EventEntry>, CliError> {
    let found = match client.call(Lookup { key: KEY.to_owned() }).await {
        Ok(found) => found,
        // No event has been stored yet.
        Err(RpcError { errno: ENOENT, .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let bytes = found.into_bytes().map_err(CliError::failure)?;
    decode_log(&String::from_utf8_lossy(&bytes))
        .map_err(|error| CliError::failure(format!("{KEY}: {error}")))
}

/// A run of a manager on this state directory.
#[derive(Debug, PartialEq)]
struct Run {
    start: Timestamp,
    end: Option<Timestamp>,
    version: String,
}

/// The runs between the events `start` and `finish`.
fn runs(events: &[EventEntry]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for event in events {
        match &*event.name {
            "start" => {
                let context = event.context.as_ref();
                let version = context.and_then(|context| context.get("core_version")?.as_str());
                let version = version.unwrap_or("?").to_owned();
                runs.push(Run { start: event.timestamp, end: None, version });
            }
            "finish" => {
                if let Some(run) = runs.last_mut() {
                    run.end = Some(event.timestamp);
                }
            }
            _ => {}
        }
    }
    runs
}

impl Run {
    fn line(&self, last: bool, now: Timestamp, version: bool, zone: &TimeZone) -> String {
        let start = minute(self.start, zone);
        let lasted = |end: Timestamp| {
            let seconds = Fsd::from_secs((end - self.start).max(0.0));
            seconds.map_or_else(|_| "?".to_owned(), |fsd| fsd.format_digits(2))
        };
        let end = match self.end {
            Some(end) => format!("{} ({})", minute(end, zone), lasted(end)),
            None if last => format!("running ({})", lasted(now)),
            None => "crashed".to_owned(),
        };
        let version = if version { format!(" {}", self.version) } else { String::new() };
        format!("{start} - {end}{version}\n")
    }
}

/// Formats a time as `2026-01-02 03:04`.
fn minute(at: Timestamp, zone: &TimeZone) -> String {
    let instant = Instant::from_second(at.as_secs() as i64).unwrap_or(Instant::UNIX_EPOCH);
    instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_has_not_finished_has_crashed_or_is_running() {
        let log = "{\"timestamp\":60.0,\"name\":\"start\",\"context\":{\"core_version\":\"1.2\"}}\n\
                   {\"timestamp\":120.0,\"name\":\"finish\"}\n\
                   {\"timestamp\":180.0,\"name\":\"start\"}\n\
                   {\"timestamp\":190.0,\"name\":\"purge\"}\n\
                   {\"timestamp\":240.0,\"name\":\"start\"}\n";
        let runs = runs(&decode_log(log).unwrap());
        let now = Timestamp::from_secs(300.0);
        let line = |n: usize, version| runs[n].line(n == 2, now, version, &TimeZone::UTC);
        assert_eq!(line(0, true), "1970-01-01 00:01 - 1970-01-01 00:02 (1m) 1.2\n");
        assert_eq!(line(1, false), "1970-01-01 00:03 - crashed\n");
        assert_eq!(line(2, false), "1970-01-01 00:04 - running (1m)\n");
    }
}
