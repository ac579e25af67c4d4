//! `job wait-event`: waits for an event of a job.

use std::time::Duration;

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::Fsd;

use super::event_print::FormatArgs;
use super::event_stream::{EventStream, has_context, not_found, path_key};
use crate::cli::common::arrays;
use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};

/// Options and arguments of `job wait-event`.
#[derive(Debug, clap::Args)]
pub(super) struct WaitEventArgs {
    #[command(flatten)]
    format: FormatArgs,
    /// Fail if no event is posted for this long
    #[arg(short = 't', long, value_name = "FSD", allow_hyphen_values = true)]
    timeout: Option<String>,
    /// Print all events before the one that is waited for (repeatable, without further effect)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print nothing
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Wait for the N-th matching event
    #[arg(short = 'c', long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    count: i64,
    /// Match only events whose context has this value
    #[arg(short = 'm', long, value_name = "KEY=VAL")]
    match_context: Option<String>,
    /// Eventlog to watch: eventlog, exec, output, input or a key
    #[arg(short = 'p', long, value_name = "PATH", default_value = "eventlog")]
    path: String,
    /// Wait until the eventlog exists
    #[arg(short = 'W', long)]
    waitcreate: bool,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
    /// Name of the event
    #[arg(value_name = "EVENT")]
    event: String,
}

/// The event that is waited for.
struct Wanted<'a> {
    name: &'a str,
    context: Option<(&'a str, &'a str)>,
    /// The number of matching events that are still to come.
    left: i64,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &WaitEventArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    let limit = |text| parse_timeout("wait-event", text);
    let timeout = args.timeout.as_deref().map(limit).transpose()?.flatten();
    if args.count <= 0 {
        return Err(CliError::failure("count must be > 0"));
    }
    let context = args.match_context.as_deref().map(|text| {
        text.split_once('=')
            .ok_or_else(|| CliError::failure("must specify a context test as key=value"))
    });
    let mut wanted = Wanted { name: &args.event, context: context.transpose()?, left: args.count };
    let mut printer = args.format.printer()?;
    let key = path_key(&args.path);
    let mut events = EventStream::open(client, target.id, key, args.waitcreate).await?;
    loop {
        let event = match next(&mut events, timeout).await {
            None => {
                let text = format!("wait-event timeout on event '{}'", args.event);
                return Err(CliError::failure(text));
            }
            Some(None) => {
                let text = format!("event '{}' never received", args.event);
                return Err(CliError::failure(text));
            }
            Some(Some(event)) => {
                event.map_err(|error| not_found(error, &target.typed, &args.path))?
            }
        };
        let found = wanted.found(&event);
        if !args.quiet && (found || args.verbose > 0) {
            printer.print(&event)?;
        } else {
            printer.skip(&event);
        }
        if found {
            return Ok(0);
        }
    }
}

/// Waits for the next event. Returns `None` if the timeout expires first, and `Some(None)` at the end of the
/// eventlog.
pub(super) async fn next(
    events: &mut EventStream,
    timeout: Option<Duration>,
) -> Option<Option<Result<EventEntry, RpcError>>> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, events.next()).await.ok(),
        None => Some(events.next().await),
    }
}

/// The limit of the option `--timeout` of `command`. An empty text means no limit.
pub(in crate::cli) fn parse_timeout(
    command: &str,
    text: &str,
) -> Result<Option<Duration>, CliError> {
    if text.is_empty() {
        return Ok(None);
    }
    let duration: Fsd = text.parse().map_err(|_| {
        let text = format!("{command}: Invalid argument for option 'timeout': '{text}'");
        CliError::failure(text)
    })?;
    // As in Flux, 0 means no limit.
    Ok(duration.to_duration().filter(|limit| *limit > Duration::ZERO))
}

impl Wanted<'_> {
    /// Counts a matching event. Returns true if it is the one that is waited for.
    fn found(&mut self, event: &EventEntry) -> bool {
        if event.name != self.name || !self.context.is_none_or(|test| has_context(event, test)) {
            return false;
        }
        self.left -= 1;
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> EventEntry {
        EventEntry::decode(&format!("{line}\n")).unwrap()
    }

    #[test]
    fn only_matching_events_are_counted() {
        let mut wanted = Wanted { name: "priority", context: Some(("priority", "8")), left: 2 };
        let eight = event(r#"{"timestamp":1.0,"name":"priority","context":{"priority":8}}"#);
        let nine = event(r#"{"timestamp":1.0,"name":"priority","context":{"priority":9}}"#);
        assert!(!wanted.found(&eight));
        assert!(!wanted.found(&nine));
        assert!(wanted.found(&eight));
    }
}
