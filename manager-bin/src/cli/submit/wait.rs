//! Waits for submitted jobs, with their output.

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::{JobId, Timestamp};
use serde_json::Value;

use super::args::CopyArgs;
use super::log::Sinks;
use crate::cli::ids::show_id;
use crate::cli::job::{Ending, EventStream, Output, exit_code_of, show_exception};
use crate::cli::message::CliError;
use crate::client::Client;
use crate::rpc::errno::ENOENT;

/// What is waited for.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Wait {
    event: String,
    exec: bool,
    watch: Option<Output>,
    verbose: u8,
}

impl Wait {
    /// What the options ask for; `None` if nothing.
    pub(in crate::cli) fn from_args(verbose: u8, label: bool, args: &CopyArgs) -> Option<Self> {
        let event = match &args.wait_event {
            Some(event) => event.clone(),
            None if args.wait || args.watch => "clean".to_owned(),
            None => return None,
        };
        let (event, exec) = match event.strip_prefix("exec.") {
            Some(event) => (event.to_owned(), true),
            None => (event, false),
        };
        let watch = args.watch.then_some(Output { label, quiet: false });
        Some(Self { event, exec, watch, verbose })
    }

    /// The end of the job, with its output until then.
    pub(in crate::cli) fn with_output(verbose: u8, label: bool) -> Self {
        let watch = Some(Output { label, quiet: false });
        Self { event: "clean".to_owned(), exec: false, watch, verbose }
    }
}

/// Waits for a job, and returns its exit code.
pub(in crate::cli) async fn wait_for(
    client: Client,
    id: JobId,
    wait: Wait,
    sinks: Sinks,
) -> Result<u8, CliError> {
    let output = async {
        match wait.watch {
            Some(output) => copy_output(&client, id, output, &sinks).await,
            None => Ok(()),
        }
    };
    let (copied, code) = tokio::join!(output, follow(&client, id, &wait, &sinks));
    copied?;
    code
}

async fn copy_output(
    client: &Client,
    id: JobId,
    output: Output,
    sinks: &Sinks,
) -> Result<(), CliError> {
    let mut events = EventStream::open(client, id, "guest.output", false).await?;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if let Some((stderr, bytes)) = output.bytes(&event) {
                    sinks.put(stderr, &bytes)?;
                }
            }
            // A job without output: it never started, or it is simulated.
            Err(error) if error.errno == ENOENT => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn follow(client: &Client, id: JobId, wait: &Wait, sinks: &Sinks) -> Result<u8, CliError> {
    if wait.exec {
        return follow_exec(client, id, &wait.event, sinks).await;
    }
    let mut events = EventStream::open(client, id, "eventlog", false).await?;
    let mut ending = Ending::default();
    let mut first = None;
    while let Some(event) = events.next().await {
        let event = event?;
        let first = *first.get_or_insert(event.timestamp);
        ending.note(&event);
        tell(id, &event, first, wait.verbose, sinks);
        if event.name == *wait.event {
            // The awaited event has come. Whether the job will succeed is not known yet.
            let over = event.name == "clean" || ending.status.is_some();
            return Ok(if over { exit_code_of(&ending, 1) } else { 0 });
        }
    }
    sinks.note(&never_came(id, &wait.event));
    Ok(exit_code_of(&ending, 1).max(1))
}

async fn follow_exec(
    client: &Client,
    id: JobId,
    name: &str,
    sinks: &Sinks,
) -> Result<u8, CliError> {
    let mut events = EventStream::open(client, id, "guest.exec.eventlog", true).await?;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) if event.name == name => return Ok(0),
            Ok(_) => {}
            // A job that never ran, or is simulated, has no such log.
            Err(error) if error.errno == ENOENT => break,
            Err(error) => return Err(error.into()),
        }
    }
    sinks.note(&never_came(id, &format!("exec.{name}")));
    Ok(1)
}

fn never_came(id: JobId, event: &str) -> String {
    format!("{}: event '{event}' never received", show_id(id))
}

fn tell(id: JobId, event: &EventEntry, first: Timestamp, verbose: u8, sinks: &Sinks) {
    let fatal = |event: &EventEntry| {
        let severity = event.context.as_ref().and_then(|context| context.get("severity"));
        severity.and_then(Value::as_i64) == Some(0)
    };
    if event.name == "exception" && fatal(event) {
        sinks.note(&format!("job.exception: {}", show_exception(event)));
    }
    let time = event.timestamp.as_secs() - first.as_secs();
    let start = format!("{}: {time:.3}s:", show_id(id));
    if verbose > 1 {
        let context = event.context.clone().map(|context| format!(" {}", Value::Object(context)));
        sinks.note(&format!("{start} {}{}", event.name, context.unwrap_or_default()));
    }
    if verbose > 0 && event.name == "finish" {
        let status = event.context.as_ref().and_then(|context| context.get("status"));
        let status = status.and_then(Value::as_i64).unwrap_or(0);
        let word = if status == 0 { "complete" } else { "failed" };
        sinks.note(&format!("{start} {word}: status={status}"));
    }
}
