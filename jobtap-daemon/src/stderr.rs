//! Standard error of the manager and the shepherd, which must not fail or block their threads.
//!
//! Standard error may be a closed terminal, a file on a full disk, or a pipe that is not read. `eprintln!`
//! panics on the first two and blocks on the last, and the thread may be the engine's. So lines are put on a
//! bounded queue, from which one thread writes them. Lines that don't fit or can't be written are dropped and
//! counted.
//!
//! Short-lived commands write directly: they may wait for their reader.
//!
//! Lines are text, or JSON for a collector of logs. An environment variable chooses, since it also reaches the
//! shepherd, and applies from the first line on.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use crate::shown;

/// The variable that chooses between text and JSON.
const FORMAT: &str = "JOBTAP_LOG_FORMAT";
/// The target of lines of the manager's log.
const LOG: &str = "job-manager";
/// The target of other lines of the process.
const PROCESS: &str = "jobtap";

/// The maximum number of lines in the queue. Together with [`LONGEST_LINE`] this bounds the memory to 17 MiB.
const WAITING: usize = 512;
/// The maximum size of a message in bytes; a longer one is cut.
const LONGEST: usize = 16 * 1024;
/// The maximum size of a line in bytes. Escaping may double the size of a message.
const LONGEST_LINE: usize = 2 * LONGEST + 1024;
/// How long a process that ends waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The interval at which it checks that.
const POLL: Duration = Duration::from_millis(2);

/// Sends an event to a subscriber. This is a macro because the target of an event must be a constant in the code
/// that sends it.
macro_rules! emit {
    ($to:expr, $target:expr, $level:expr, $text:expr) => {{
        let text = shown::lines($text);
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
        dispatcher::with_default($to, || match $level {
            Level::Error => tracing::error!(target: $target, "{text}"),
            Level::Warning => tracing::warn!(target: $target, "{text}"),
            Level::Info => tracing::info!(target: $target, "{text}"),
            Level::Debug => tracing::debug!(target: $target, "{text}"),
        })
    }};
}

/// How lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    /// Unchanged, but log lines have the service, severity and rank in front.
    #[default]
    Text,
    /// One JSON object per line, with time, severity and message.
    Json,
}

impl Form {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "text" => Some(Form::Text),
            "json" => Some(Form::Json),
            _ => None,
        }
    }
}

/// An unknown value of the variable that chooses the form of lines.
#[derive(Debug, thiserror::Error)]
#[error("{FORMAT}={0}: use text or json")]
pub struct UnknownFormat(String);

/// Checks the variable that chooses the form of lines.
///
/// # Errors
/// [`UnknownFormat`].
pub fn check_format() -> Result<(), UnknownFormat> {
    let value = std::env::var(FORMAT).unwrap_or_default();
    match Form::parse(&value) {
        Some(_) => Ok(()),
        None => Err(UnknownFormat(value)),
    }
}

/// Queues a warning of this process, with its control characters escaped. Never fails, panics or blocks.
pub fn line(text: &str) {
    line_of(Level::Warning, text);
}

/// Like [`line()`], with this severity.
pub fn line_of(level: Level, text: &str) {
    emit!(lines(), PROCESS, level, text);
}

/// Queues a line of the manager's log, like [`line()`].
pub(crate) fn log(level: Level, text: &str) {
    emit!(lines(), LOG, level, text);
}

/// A log line in the form of `flux dmesg`: service, severity, rank.
pub(crate) fn render(level: Level, text: &str) -> String {
    let severity = match level {
        Level::Error => "err",
        Level::Warning => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
    };
    format!("{LOG}.{severity}[0]: {text}")
}

/// The number of lines that were dropped in this process.
pub(crate) fn dropped() -> u64 {
    writer().dropped()
}

/// Waits a short time for all queued lines to be written. To be called at the end of a process.
pub fn flush() {
    writer().flush(LAST_LINES);
}

/// Writes panic messages through the queue too: the standard library's hook blocks on a full pipe. Does the same
/// for the warnings of libraries.
pub fn take_panics() {
    std::panic::set_hook(Box::new(|panic| line_of(Level::Error, &words(panic))));
    // An error means that a default was set before.
    let _ = dispatcher::set_global_default(lines().clone());
}

fn words(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let text = panic.payload_as_str().unwrap_or("Box<dyn Any>");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => format!("thread '{name}' panicked{place}:\n{text}\n{trace}"),
        _ => format!("thread '{name}' panicked{place}:\n{text}"),
    }
}

/// The subscriber for events, which puts them on the queue in the form that the environment chooses.
fn lines() -> &'static Dispatch {
    static LINES: OnceLock<Dispatch> = OnceLock::new();
    LINES.get_or_init(|| {
        let form = std::env::var(FORMAT).ok().and_then(|form| Form::parse(&form));
        subscriber(form.unwrap_or_default(), || Queued)
    })
}

fn subscriber<W>(form: Form, writer: W) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let ours = |metadata: &Metadata<'_>| {
        [LOG, PROCESS].contains(&metadata.target()) || *metadata.level() <= tracing::Level::WARN
    };
    let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(writer);
    let filter = tracing_subscriber::filter::filter_fn(ours);
    match form {
        Form::Text => Dispatch::new(lines.event_format(Text).finish().with(filter)),
        Form::Json => {
            let lines = lines.json().flatten_event(true);
            Dispatch::new(
                lines.with_current_span(false).with_span_list(false).finish().with(filter),
            )
        }
    }
}

/// Lines of text.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        if event.metadata().target() == LOG {
            let level = match *event.metadata().level() {
                tracing::Level::ERROR => Level::Error,
                tracing::Level::WARN => Level::Warning,
                tracing::Level::INFO => Level::Info,
                _ => Level::Debug,
            };
            write!(writer, "{}", render(level, ""))?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Puts each write on the queue, as a line.
struct Queued;

impl Write for Queued {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        writer().line(bytes.trim_ascii_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn writer() -> &'static Lines {
    static WRITER: OnceLock<Lines> = OnceLock::new();
    WRITER.get_or_init(|| Lines::to(std::io::stderr()))
}

/// A queue of lines to a file that may be slow or broken.
struct Lines {
    queue: SyncSender<Vec<u8>>,
    /// Lines put on the queue.
    queued: AtomicU64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Lines taken from the queue, whether or not they could be written.
    taken: AtomicU64,
    dropped: AtomicU64,
}

impl Lines {
    fn to(place: impl Write + Send + 'static) -> Self {
        let (queue, lines) = sync_channel(WAITING);
        let counts = Arc::<Counts>::default();
        let counting = Arc::clone(&counts);
        // If the thread can't be started the queue is closed, and each line is dropped.
        let _ = std::thread::Builder::new()
            .name("stderr".into())
            .spawn(move || write_all(place, &lines, &counting));
        Self { queue, queued: AtomicU64::new(0), counts }
    }

    fn line(&self, text: &[u8]) {
        let mut bytes = text.to_vec();
        bytes.truncate(LONGEST_LINE);
        bytes.push(b'\n');
        // Counted before it is queued: `flush` relies on `taken` never exceeding the number of queued lines.
        self.queued.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(bytes).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::AcqRel);
            self.counts.taken.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Acquire)
    }

    fn flush(&self, patience: Duration) {
        let (queued, begun) = (self.queued.load(Ordering::Acquire), Instant::now());
        while self.counts.taken.load(Ordering::Acquire) < queued && begun.elapsed() < patience {
            std::thread::sleep(POLL);
        }
    }
}

fn write_all(mut place: impl Write, lines: &Receiver<Vec<u8>>, counts: &Counts) {
    while let Ok(line) = lines.recv() {
        if place.write_all(&line).and_then(|()| place.flush()).is_err() {
            counts.dropped.fetch_add(1, Ordering::AcqRel);
        }
        counts.taken.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, Read, pipe};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn read_lines(reader: PipeReader, count: usize) -> Vec<String> {
        use std::io::BufRead;
        let lines = std::io::BufReader::new(reader).lines();
        lines.take(count).map(Result::unwrap).collect()
    }

    /// Collects what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The output for a line of the log and a line of the process.
    fn written(form: Form, text: &str) -> Vec<String> {
        let kept = Kept::default();
        let place = kept.clone();
        let to = subscriber(form, move || place.clone());
        emit!(&to, LOG, Level::Warning, text);
        emit!(&to, PROCESS, Level::Info, text);
        // An event of a library, which is not written.
        dispatcher::with_default(&to, || tracing::info!(target: "hyper", "connected"));
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_text_with_service_severity_and_rank() {
        let lines = ["job-manager.warning[0]: a \\u0007 \"b\"", "a \\u0007 \"b\""];
        assert_eq!(written(Form::Text, "a \u{7} \"b\""), lines);
    }

    #[test]
    fn lines_are_json_on_request() {
        let lines = written(Form::Json, "a \"b\"\nc");
        let lines: Vec<serde_json::Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        for (line, (level, target)) in lines.iter().zip([("WARN", LOG), ("INFO", PROCESS)]) {
            assert_eq!(line["message"], "a \"b\"\nc");
            assert_eq!((&line["level"], &line["target"]), (&level.into(), &target.into()));
            assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
        }
        let long = written(Form::Json, &"\"".repeat(2 * LONGEST));
        assert!(long.iter().all(|line| line.len() <= LONGEST_LINE));
        assert_eq!(Form::parse("xml"), None);
    }

    #[test]
    fn lines_arrive_in_order() {
        let (reader, place) = pipe().unwrap();
        let lines = Lines::to(place);
        lines.line(b"one");
        lines.line(b"two");
        lines.flush(LONG);
        assert_eq!(read_lines(reader, 2), ["one", "two"]);
        assert_eq!(lines.dropped(), 0);
    }

    #[test]
    fn a_full_device_drops_and_counts() {
        let lines = Lines::to(File::options().write(true).open("/dev/full").unwrap());
        lines.line(b"one");
        lines.line(b"two");
        lines.flush(LONG);
        assert_eq!(lines.dropped(), 2);
    }

    #[test]
    fn a_closed_pipe_drops_and_counts() {
        let (reader, place) = pipe().unwrap();
        drop(reader);
        let lines = Lines::to(place);
        lines.line(b"one");
        lines.flush(LONG);
        assert_eq!(lines.dropped(), 1);
    }

    #[test]
    fn a_pipe_that_is_not_read_blocks_no_caller() {
        let (mut reader, place) = pipe().unwrap();
        let lines = Lines::to(place);
        // More than the pipe (64 KiB) and the queue hold together.
        let long = "x".repeat(LONGEST);
        let count = WAITING + 64;
        (0..count).for_each(|_| lines.line(long.as_bytes()));
        assert!(lines.dropped() > 0);
        // As soon as the pipe is read again, the queued lines are written.
        let kept = (count as u64 - lines.dropped()) * (LONGEST as u64 + 1);
        let mut read = (&mut reader).take(kept);
        assert_eq!(std::io::copy(&mut read, &mut std::io::sink()).unwrap(), kept);
        lines.line(b"again");
        assert_eq!(read_lines(reader, 1), ["again"]);
    }
}
