//! Standard error of the manager and the shepherd, which must not fail or block their threads.
//!
//! Standard error may be a closed terminal, a file on a full disk, or a pipe that is not read. `eprintln!`
//! panics on the first two and blocks on the last, and the thread may be the engine's. So lines are put on a
//! bounded queue here, which one thread writes. Lines that don't fit or can't be written are dropped and
//! counted.
//!
//! Short-lived commands write directly: they may wait for their reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::shown;

/// The most lines in the queue. Together with [`LONGEST`] this bounds the memory to 16 MiB.
const WAITING: usize = 1024;
/// The most bytes of a line; a longer one is cut.
const LONGEST: usize = 16 * 1024;
/// How long a process that ends waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The interval at which it checks that.
const POLL: Duration = Duration::from_millis(2);

/// Queues a line, with its control characters escaped. Never fails, panics or blocks.
pub(crate) fn line(text: &str) {
    writer().line(&shown::lines(text));
}

/// The number of lines that were dropped in this process.
pub(crate) fn dropped() -> u64 {
    writer().dropped()
}

/// Waits for a short time until all queued lines are written. To be called at the end of a process.
pub(crate) fn flush() {
    writer().flush(LAST_LINES);
}

/// Writes panic messages through the queue too: the standard library's hook blocks on a full pipe.
pub(crate) fn take_panics() {
    std::panic::set_hook(Box::new(|panic| line(&words(panic))));
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

    fn line(&self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.truncate(LONGEST);
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

    #[test]
    fn lines_arrive_in_order() {
        let (reader, place) = pipe().unwrap();
        let lines = Lines::to(place);
        lines.line("one");
        lines.line("two");
        lines.flush(LONG);
        assert_eq!(read_lines(reader, 2), ["one", "two"]);
        assert_eq!(lines.dropped(), 0);
    }

    #[test]
    fn a_full_device_drops_and_counts() {
        let lines = Lines::to(File::options().write(true).open("/dev/full").unwrap());
        lines.line("one");
        lines.line("two");
        lines.flush(LONG);
        assert_eq!(lines.dropped(), 2);
    }

    #[test]
    fn a_closed_pipe_drops_and_counts() {
        let (reader, place) = pipe().unwrap();
        drop(reader);
        let lines = Lines::to(place);
        lines.line("one");
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
        (0..count).for_each(|_| lines.line(&long));
        assert!(lines.dropped() > 0);
        // As soon as it is read again, the queued lines are written.
        let kept = (count as u64 - lines.dropped()) * (LONGEST as u64 + 1);
        let mut read = (&mut reader).take(kept);
        assert_eq!(std::io::copy(&mut read, &mut std::io::sink()).unwrap(), kept);
        lines.line("again");
        assert_eq!(read_lines(reader, 1), ["again"]);
    }
}
