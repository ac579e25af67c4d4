//! Standard error of the manager, the shepherd and their threads, as a place that can fail.
//!
//! Standard error may be a closed terminal, a file on a full disk, or a pipe that nobody reads.
//! `eprintln!` panics on the first two and blocks on the last, and the thread that it panics or blocks
//! on may be the engine's. So a line is only put on a bounded queue here, and one thread writes the
//! queue. What doesn't fit or can't be written is dropped and counted.
//!
//! Commands that end by themselves write directly: they may wait for their reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::shown;

/// Lines that may wait to be written. With [`LONGEST`] this bounds the memory: 16 MiB.
const WAITING: usize = 1024;
/// Bytes of a line; what is longer is cut.
const LONGEST: usize = 16 * 1024;
/// How long the end of a process waits until its last lines are written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How often is looked whether they are.
const POLL: Duration = Duration::from_millis(2);

/// Writes a line, some time soon, without control characters. Never fails, panics or blocks.
pub(crate) fn line(text: &str) {
    writer().line(&shown::lines(text));
}

/// How many lines were dropped so far in this process.
pub(crate) fn dropped() -> u64 {
    writer().dropped()
}

/// Waits, but not for long, until what was written before is out: for the end of a process.
pub(crate) fn flush() {
    writer().flush(LAST_LINES);
}

/// Has the words of panics go this way too: the standard library's own hook blocks on a full pipe.
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

/// Lines on their way to a place that may be slow or broken.
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
        // Where there is no thread for it the queue is closed, and each line is dropped.
        let _ = std::thread::Builder::new()
            .name("stderr".into())
            .spawn(move || write_all(place, &lines, &counting));
        Self { queue, queued: AtomicU64::new(0), counts }
    }

    fn line(&self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.truncate(LONGEST);
        bytes.push(b'\n');
        // Counted first: the writer must never have taken more than was queued.
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
    fn a_pipe_that_nobody_reads_blocks_no_caller() {
        let (mut reader, place) = pipe().unwrap();
        let lines = Lines::to(place);
        // More than the pipe (64 KiB) and the queue hold together.
        let long = "x".repeat(LONGEST);
        let count = WAITING + 64;
        (0..count).for_each(|_| lines.line(&long));
        assert!(lines.dropped() > 0);
        // As soon as it is read again, what waited comes out.
        let kept = (count as u64 - lines.dropped()) * (LONGEST as u64 + 1);
        let mut read = (&mut reader).take(kept);
        assert_eq!(std::io::copy(&mut read, &mut std::io::sink()).unwrap(), kept);
        lines.line("again");
        assert_eq!(read_lines(reader, 1), ["again"]);
    }
}
