//! Waits for submitted jobs and copies their output.

use jobtap_core::eventlog::{Event, EventEntry, Name};
use jobtap_core::job::{JobId, Timestamp};
use serde_json::Value;

use super::args::CopyArgs;
use super::log::Sinks;
use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::progress::Progress;
use crate::cli::job::{
    EventStream, Finish, Output, OutputStream, Pieces, exit_code_of, show_exception,
};
use crate::client::Client;
use crate::rpc::errno::ENOENT;

/// What to wait for, and what to print meanwhile.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Wait {
    event: String,
    exec: bool,
    watch: Option<Output>,
    verbose: u8,
    /// The progress bar that counts the events of the jobs.
    progress: Option<Progress>,
}

impl Wait {
    /// The value for the options. `None` if they don't ask to wait.
    pub(in crate::cli) fn from_args(verbose: u8, label: bool, args: &CopyArgs) -> Option<Self> {
        let event = match &args.wait_event {
            Some(event) => event.as_str(),
            None if args.wait || args.watch => &Name::Clean,
            None => return None,
        };
        let watch = args.watch.then_some(Output { label, ..Output::default() });
        let wait = Self { event: String::new(), exec: false, watch, verbose, progress: None };
        Some(wait.until(event))
    }

    /// The same, but until another event.
    pub(in crate::cli) fn until(self, event: &str) -> Self {
        let (event, exec) = match event.strip_prefix("exec.") {
            Some(event) => (event, true),
            None => (event, false),
        };
        Self { event: event.to_owned(), exec, ..self }
    }

    /// Waits until the job is inactive, and copies its output.
    pub(in crate::cli) fn with_output(verbose: u8, label: bool) -> Self {
        let watch = Some(Output { label, ..Output::default() });
        Self { event: Name::Clean.to_string(), exec: false, watch, verbose, progress: None }
    }

    /// Whether the output of the jobs is printed.
    pub(in crate::cli) fn copies_output(&self) -> bool {
        self.watch.is_some()
    }

    /// The last event of the exec eventlog that is waited for or shown; `None` if that eventlog isn't needed. As in
    /// Flux, its events before the output are shown with the output.
    fn last_of_execution(&self) -> Option<&str> {
        match (self.exec, self.watch.is_some() && self.verbose > 1) {
            (true, _) => Some(&self.event),
            (false, true) => Some("shell.init"),
            (false, false) => None,
        }
    }

    /// The events of the main eventlog that are needed; an empty list stands for all. With thousands of jobs, handling
    /// every event would take a good part of the time that the jobs take.
    fn needed_events(&self) -> Vec<String> {
        if self.verbose > 0 || self.progress.is_some() {
            return Vec::new();
        }
        let ends = [Name::Exception, Name::Finish, Name::Clean].map(|name| name.to_string());
        let start = self.last_of_execution().map(|_| Name::Start.to_string());
        let event = (!self.exec).then(|| self.event.clone());
        ends.into_iter().chain(start).chain(event).collect()
    }

    /// The same, with a progress bar for the jobs.
    pub(in crate::cli) fn with_progress(self, progress: Option<Progress>) -> Self {
        Self { progress, ..self }
    }
}

/// Waits for a job and returns its exit code.
pub(in crate::cli) async fn wait_for(
    client: Client,
    id: JobId,
    wait: Wait,
    sinks: Sinks,
) -> Result<u8, CliError> {
    if let Some(progress) = &wait.progress {
        progress.add(id);
    }
    let output = async {
        match wait.watch {
            Some(output) => copy_output(&client, id, output, &sinks).await,
            None => Ok(()),
        }
    };
    // The output can end before or after the event: both are awaited.
    let (copied, code) = tokio::join!(output, wait_for_event(&client, id, &wait, &sinks));
    if let Some(progress) = &wait.progress {
        progress.done();
    }
    copied?;
    code
}

async fn copy_output(
    client: &Client,
    id: JobId,
    output: Output,
    sinks: &Sinks,
) -> Result<(), CliError> {
    let output = Output { job: Some(id), ..output };
    let mut stream = OutputStream::open(client, id, false).await?;
    loop {
        let piece = stream.next().await?;
        let mut pieces = Pieces::default();
        match piece.events() {
            Ok(Some(events)) => {
                events.iter().for_each(|event| output.show(id, event, &mut pieces));
            }
            Ok(None) => return Ok(()),
            // The job has no output: it was never started, or is simulated.
            Err(error) if error.errno == ENOENT => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        pieces.each(|stderr, bytes| sinks.write(stderr, bytes))?;
    }
}

async fn wait_for_event(
    client: &Client,
    id: JobId,
    wait: &Wait,
    sinks: &Sinks,
) -> Result<u8, CliError> {
    let mut events = EventStream::open_only(client, id, wait.needed_events()).await?;
    let mut finish = Finish::default();
    let mut first = None;
    while let Some(event) = events.next().await {
        let event = event?;
        let first = *first.get_or_insert(event.timestamp);
        finish.update(&event);
        if let Some(progress) = &wait.progress {
            progress.update(id, &event);
        }
        print_event(id, "", &event, first, wait.verbose, sinks);
        if event.name == *wait.event && !wait.exec {
            // Before the event `finish` the exit code isn't known yet.
            let finished = event.name == Name::Clean || finish.status.is_some();
            return Ok(if finished { exit_code_of(&finish, 1) } else { 0 });
        }
        if event.name == Name::Start
            && let Some(last) = wait.last_of_execution()
            && follow_execution(client, id, last, |event| {
                print_event(id, "exec.", event, first, wait.verbose, sinks);
            })
            .await?
            && wait.exec
        {
            return Ok(0);
        }
    }
    Ok(exit_code_of(&finish, 1))
}

/// Shows the events of a job's exec eventlog up to the event `last`. Returns whether that event came.
async fn follow_execution(
    client: &Client,
    id: JobId,
    last: &str,
    show: impl Fn(&EventEntry),
) -> Result<bool, CliError> {
    let mut events = EventStream::open(client, id, "guest.exec.eventlog", true).await?;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                show(&event);
                if event.name == last {
                    return Ok(true);
                }
            }
            // The job became inactive without having started.
            Err(error) if error.errno == ENOENT => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Prints an event if it is a fatal exception or `verbose` asks for it, with `prefix` before its name. Times are
/// relative to the time `first` of the job's first event.
fn print_event(
    id: JobId,
    prefix: &str,
    event: &EventEntry,
    first: Timestamp,
    verbose: u8,
    sinks: &Sinks,
) {
    let time = event.timestamp.as_secs() - first.as_secs();
    let start = format!("{}: {time:.3}s:", show_id(id));
    if verbose > 1 {
        // Flux sorts the keys, and prints the blank without a context too.
        let context = event.context.clone().map(|context| {
            let mut context = Value::from(context);
            context.sort_all_objects();
            context.to_string()
        });
        let context = context.unwrap_or_default();
        sinks.print_message(&format!("{start} {prefix}{} {context}", event.name));
    }
    if event.fatal_exception().is_some() {
        sinks.print_message(&format!("job.exception: {}", show_exception(event).trim_end()));
    }
    if verbose > 0
        && let Ok(Event::Finish { status }) = event.event()
    {
        let word = if status == 0 { "complete" } else { "failed" };
        sinks.print_message(&format!("{start} {word}: status={status}"));
    }
}
