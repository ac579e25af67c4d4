//! `kvs eventlog`: prints the events of the eventlog at any key, such as `resource.eventlog`, and waits for one of
//! them.

use std::collections::VecDeque;
use std::time::Duration;

use jobtap_core::eventlog::format::{EntryFormat, TimeFormat};
use jobtap_core::eventlog::{EventEntry, decode_log};
use jobtap_core::job::JobId;

use super::get;
use super::messages::key_error;
use super::namespace::NamespaceArgs;
use crate::cli::common::message::CliError;
use crate::cli::job::{EventStream, Printer, color_wanted, parse_timeout};
use crate::client::{Client, Responses, RpcError};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::kvs::Watch;

/// The number of components of a job's directory: `job` and four groups of its id.
const JOB_DEPTH: usize = 5;

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum EventlogCommand {
    /// Print the events of an eventlog
    #[command(infer_long_args = true)]
    Get(GetArgs),
    /// Wait for an event of an eventlog
    #[command(infer_long_args = true)]
    WaitEvent(WaitEventArgs),
}

/// The options for the format of printed events, which are other ones than those of `job eventlog`.
#[derive(Debug, clap::Args)]
struct ShownArgs {
    /// Print each event as it is stored, a line of JSON (RFC 18)
    #[arg(short = 'u', long)]
    unformatted: bool,
    /// Print times for humans
    #[arg(short = 'H', long, conflicts_with = "unformatted")]
    human: bool,
    /// Colour the output: always, never or auto
    #[arg(short = 'L', long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    color: String,
}

/// Options and arguments of `kvs eventlog get`.
#[derive(Debug, clap::Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    shown: ShownArgs,
    /// Wait until the eventlog exists
    #[arg(short = 'W', long)]
    waitcreate: bool,
    /// Print new events as they are added, until interrupted
    #[arg(short = 'w', long)]
    watch: bool,
    /// Print at most N events
    #[arg(short = 'c', long, value_name = "N")]
    count: Option<u64>,
    /// Key of the eventlog, such as resource.eventlog
    #[arg(value_name = "KEY")]
    key: String,
}

/// Options and arguments of `kvs eventlog wait-event`.
#[derive(Debug, clap::Args)]
pub(super) struct WaitEventArgs {
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    shown: ShownArgs,
    /// Wait until the eventlog exists
    #[arg(short = 'W', long)]
    waitcreate: bool,
    /// Fail if the event is not posted for this long
    #[arg(short = 't', long, value_name = "FSD", allow_hyphen_values = true)]
    timeout: Option<String>,
    /// Print nothing
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print all events before the one that is waited for
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Key of the eventlog, such as resource.eventlog
    #[arg(value_name = "KEY")]
    key: String,
    /// Name of the event
    #[arg(value_name = "EVENT")]
    event: String,
}

impl ShownArgs {
    fn printer(&self) -> Result<Printer, CliError> {
        let format = if self.unformatted { EntryFormat::Json } else { EntryFormat::Text };
        let time = if self.human { TimeFormat::Human } else { TimeFormat::Raw };
        Ok(Printer::new(format, time, color_wanted(&self.color)?))
    }
}

/// Runs the subcommand.
pub(super) async fn run(client: &Client, command: &EventlogCommand) -> Result<u8, CliError> {
    match command {
        EventlogCommand::Get(args) => get(client, args).await,
        EventlogCommand::WaitEvent(args) => wait_event(client, args).await,
    }
}

async fn get(client: &Client, args: &GetArgs) -> Result<u8, CliError> {
    let mut printer = args.shown.printer()?;
    let whole = args.namespace.namespace()?.whole(&args.key);
    let mut events = Events::open(client, &whole, args.waitcreate, args.watch).await?;
    let most = args.count.unwrap_or(u64::MAX);
    let mut left = most;
    while left > 0 && (args.watch || events.is_more_known()) {
        let next = events.next().await.map_err(|error| error.into_cli_error(&args.key))?;
        let Some(event) = next else {
            // The eventlog of an existing job has at least one event.
            let missing = left == most && !args.watch && matches!(events, Events::Job(_));
            match missing {
                true => return Err(key_error(&args.key, RpcError::new(ENOENT, ""))),
                false => break,
            }
        };
        printer.print(&event)?;
        left -= 1;
    }
    Ok(0)
}

async fn wait_event(client: &Client, args: &WaitEventArgs) -> Result<u8, CliError> {
    let limit = |text| parse_timeout("wait-event", text);
    let timeout = args.timeout.as_deref().map(limit).transpose()?.flatten();
    let mut printer = args.shown.printer()?;
    let whole = args.namespace.namespace()?.whole(&args.key);
    let mut events = Events::open(client, &whole, args.waitcreate, true).await?;
    loop {
        let timed_out = || {
            let text = format!("wait-event timeout on event '{}'", args.event);
            Err(CliError::failure(text))
        };
        let Some(event) = within(timeout, events.next()).await else {
            return timed_out();
        };
        let event = event.map_err(|error| match error {
            EventsError::Manager(error) if error.errno == ENOENT => {
                CliError::failure(format!("eventlog path {} not found", args.key))
            }
            error => error.into_cli_error(&args.key),
        })?;
        let Some(event) = event else {
            let Some(rest) = timeout else {
                return Err(CliError::failure(format!("event '{}' never received", args.event)));
            };
            // An eventlog in Flux's KVS has no end, so Flux waits until the timeout. This does the same.
            tokio::time::sleep(rest).await;
            return timed_out();
        };
        let found = event.name == args.event;
        if !args.quiet && (found || args.verbose) {
            printer.print(&event)?;
        }
        if found {
            return Ok(0);
        }
    }
}

/// The output of the future; `None` if the limit expires first.
async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// The events of the eventlog at a key, as they are added.
enum Events {
    /// The eventlog of a job: read line by line, since its output may be long.
    Job(EventStream),
    /// The value of another key: each change delivers the whole value.
    Value(Values),
}

/// The values of a key.
struct Values {
    values: Responses<Watch>,
    /// The bytes of the eventlog so far.
    known: Vec<u8>,
    /// The events among them that [`next`](Values::next) hasn't returned; `None` before the first bytes.
    waiting: Option<VecDeque<EventEntry>>,
}

/// The job and the name of the eventlog at this key, if it is one of a job.
fn of_job(key: &str) -> Option<(JobId, &str)> {
    const LOGS: [&str; 4] = ["guest.exec.eventlog", "guest.output", "guest.input", "eventlog"];
    let name = LOGS.into_iter().find(|name| {
        key.strip_suffix(name).is_some_and(|rest| rest.matches('.').count() == JOB_DEPTH)
    })?;
    let directory = key.strip_suffix(name)?.strip_suffix('.')?;
    let id = directory.starts_with("job.").then(|| directory.parse().ok())??;
    Some((id, name))
}

/// Why there is no next event.
enum EventsError {
    /// The manager has refused the key.
    Manager(RpcError),
    /// The value of the key is not an eventlog.
    NoEventlog(String),
}

impl EventsError {
    /// The message about this key.
    fn into_cli_error(self, key: &str) -> CliError {
        match self {
            Self::Manager(error) => key_error(key, error),
            Self::NoEventlog(reason) => CliError::failure(format!("{key}: {reason}")),
        }
    }
}

impl Events {
    /// Opens the eventlog. Without `follow`, only the events so far are needed.
    async fn open(
        client: &Client,
        key: &str,
        waitcreate: bool,
        follow: bool,
    ) -> Result<Self, RpcError> {
        match of_job(key) {
            Some((id, name)) if follow && !waitcreate => {
                EventStream::open(client, id, name, false).await.map(Self::Job)
            }
            Some((id, name)) if !waitcreate => {
                EventStream::open_stored(client, id, name).await.map(Self::Job)
            }
            // A job that doesn't exist yet has no eventlog to watch, so its key is watched.
            _ => {
                let values = client.stream(Watch { key: key.to_owned(), waitcreate }).await?;
                Ok(Self::Value(Values { values, known: Vec::new(), waiting: None }))
            }
        }
    }

    /// Whether the next event is available already, or may be.
    fn is_more_known(&self) -> bool {
        match self {
            Self::Job(_) => true,
            Self::Value(values) => {
                values.waiting.as_ref().is_none_or(|waiting| !waiting.is_empty())
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<EventEntry>, EventsError> {
        match self {
            Self::Job(events) => events.next().await.transpose().map_err(EventsError::Manager),
            Self::Value(values) => values.next().await,
        }
    }
}

impl Values {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<EventEntry>, EventsError> {
        loop {
            if let Some(event) = self.waiting.as_mut().and_then(VecDeque::pop_front) {
                return Ok(Some(event));
            }
            let Some(value) = self.values.next().await else { return Ok(None) };
            let value = value.and_then(get::bytes).map_err(EventsError::Manager)?;
            let added = get::added(&self.known, &value);
            let text = std::str::from_utf8(added)
                .map_err(|error| EventsError::NoEventlog(error.to_string()))?;
            let events =
                decode_log(text).map_err(|error| EventsError::NoEventlog(error.to_string()))?;
            self.waiting = Some(events.into());
            self.known = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventlogs_of_jobs_are_known_by_their_keys() {
        let id = Some(JobId::new(0x0123_4567));
        let of = |name: &str| of_job(name).map(|(id, name)| (Some(id), name.to_owned()));
        for name in ["eventlog", "guest.output", "guest.exec.eventlog", "guest.input"] {
            let key = format!("job.0000.0000.0123.4567.{name}");
            assert_eq!(of(&key), Some((id, name.to_owned())));
        }
        for key in ["resource.eventlog", "eventlog", "job.1.eventlog", "job.0000.0000.0123.4567.R"]
        {
            assert_eq!(of(key), None, "{key}");
        }
    }
}
