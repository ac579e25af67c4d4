//! The log of a job's output, in the form of `guest.output` (RFC 24), which the manager shows while and after the job
//! runs.
//!
//! It is a file of the job in the state directory, which the manager reads. A short job that prints little needs none:
//! what it has printed is held in memory, and goes to the manager's store with the job's end. Making a file takes
//! longer than everything else that such a job needs from the shepherd, and a directory of a million small files is of
//! no use to a site.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobtap_core::job::JobId;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::output_stream::Stream;
use super::pack::{PATIENCE, Pack, Written};
use crate::clock::now;
use crate::exec::job_files::JobFiles;
use crate::exec::output_limit;

/// The component that warns of truncated output, by Flux's name for it.
const COMPONENT: &str = "output.kvs";

/// The severity of a line of the shepherd, as a syslog number.
#[derive(Clone, Copy)]
pub(super) enum Severity {
    /// The job fails because of it.
    Fatal = 0,
    /// The job runs in spite of it.
    Error = 3,
    /// Something may not be as the user expects.
    Warning = 4,
}

impl Severity {
    /// The word in a line. All words have the same length.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => " WARN",
        }
    }
}

/// The maximum size of the entries that are held in memory, in bytes.
const MOST_HELD: usize = 4096;

/// The minimum size of a long piece of output, in bytes. Pieces are long if a task prints faster than the shepherd reads.
const LONG: usize = 16 * 1024;

/// The maximum mean length of short lines, in bytes.
const SHORT: usize = 32;

/// Whether a piece is written in base64 although it is text. Each end of a line takes an escape in JSON, and readers take
/// several times as long for them as for base64.
fn is_long_of_short_lines(data: &[u8]) -> bool {
    data.len() >= LONG && memchr::memchr_iter(b'\n', data).count() > data.len() / SHORT
}

/// Where the flushed entries of a log are.
enum Place {
    /// In memory, until they are too many, or the job [runs for long](OutputLog::move_to_file), or it ends.
    Held { entries: Vec<u8>, files: Arc<JobFiles>, id: JobId },
    /// In a file, which has `written` bytes.
    File { file: File, written: u64 },
}

/// The output log of a job. Entries are buffered until [`flush`](Self::flush), which keeps all of them or
/// none.
pub(in crate::exec::shepherd) struct OutputLog {
    place: Place,
    buffer: Vec<u8>,
    tasks: TaskCount,
    /// The number of bytes that are kept of each stream.
    limit: u64,
    stdout: Extent,
    stderr: Extent,
    /// Where the data go, if the job has an output pack.
    pack: Option<Pack>,
}

/// The number of tasks of a job.
#[derive(Clone, Copy)]
pub(super) struct TaskCount {
    /// All of them, on whatever node.
    pub(super) all: u32,
    /// Those whose output is in this log.
    pub(super) own: u32,
}

/// How much all tasks together have printed to a stream.
#[derive(Default)]
struct Extent {
    printed: u64,
    kept: u64,
    /// Tasks whose stream has ended.
    ended: u32,
}

#[derive(Serialize)]
struct Entry<C> {
    timestamp: f64,
    name: &'static str,
    context: C,
}

#[derive(Serialize)]
struct Data<'a> {
    stream: &'static str,
    rank: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    eof: bool,
}

impl OutputLog {
    /// The log of a job in a new file, which keeps `limit` bytes of each stream.
    pub(super) fn in_file(file: File, tasks: TaskCount, limit: u64) -> Self {
        Self::new(Place::File { file, written: 0 }, tasks, limit)
    }

    /// The log of the job `id`, held in memory until it is known whether it needs a file in `files`.
    pub(super) fn held(files: Arc<JobFiles>, id: JobId, tasks: TaskCount, limit: u64) -> Self {
        Self::new(Place::Held { entries: Vec::new(), files, id }, tasks, limit)
    }

    /// The log of a job in a file that another shepherd has begun.
    pub(super) fn continued(file: File, tasks: TaskCount, limit: u64) -> io::Result<Self> {
        let written = file.metadata()?.len();
        let mut log = Self::new(Place::File { file, written }, tasks, limit);
        // The file already has its header.
        log.buffer.clear();
        // About as much was kept as the file has.
        for extent in [&mut log.stdout, &mut log.stderr] {
            *extent = Extent { printed: written, kept: written, ended: 0 };
        }
        Ok(log)
    }

    fn new(place: Place, tasks: TaskCount, limit: u64) -> Self {
        let (stdout, stderr) = (Extent::default(), Extent::default());
        let buffer = Vec::new();
        let mut log = Self { place, buffer, tasks, limit, stdout, stderr, pack: None };
        log.add(
            "header",
            json!({
                "version": 1,
                "encoding": {"stdout": "UTF-8", "stderr": "UTF-8"},
                "count": {"stdout": tasks.all, "stderr": tasks.all},
                "options": {},
            }),
        );
        log
    }

    /// Writes data to an output pack from now on. The log has the places of the blocks.
    pub(super) fn write_to_pack(&mut self, pack: Pack) {
        self.pack = Some(pack);
    }

    /// How long to wait for more output until the next [`flush`](Self::flush); `None` if nothing is to be written.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.pack.as_ref().filter(|pack| pack.waits()).map(|_| PATIENCE)
    }

    /// Records that a stream of the tasks `ranks` (an idset, in brackets if it has several) goes to a file, or to the
    /// files of a template.
    pub(super) fn redirect(&mut self, stream: Stream, ranks: &str, path: &str) {
        let context: Value = json!({"stream": stream.name(), "rank": ranks, "path": path});
        self.add("redirect", context);
    }

    /// Adds a warning of the shepherd itself.
    pub(super) fn warn(&mut self, component: &str, message: &str) {
        self.log(Severity::Warning, Some(component), message);
    }

    /// Adds a line of the shepherd itself.
    pub(super) fn log(&mut self, severity: Severity, component: Option<&str>, message: &str) {
        let level = severity as u8;
        let context = match component {
            Some(component) => {
                json!({"rank": 0, "level": level, "component": component, "message": message})
            }
            None => json!({"rank": 0, "level": level, "message": message}),
        };
        self.add("log", context);
    }

    fn extent(&mut self, stream: Stream) -> &mut Extent {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Adds data that a task wrote. Data over the limit, and all that follows it, is only counted.
    pub(super) fn data(&mut self, stream: Stream, rank: u32, data: &[u8]) {
        if let Some(pack) = &mut self.pack {
            return pack.add(stream, rank, data);
        }
        let limit = self.limit;
        let extent = self.extent(stream);
        // Keeps the lines of the piece that fit.
        if extent.printed.saturating_add(data.len() as u64) > limit
            && memchr::memchr(b'\n', data).is_some_and(|end| end + 1 < data.len())
        {
            for line in data.split_inclusive(|byte| *byte == b'\n') {
                self.data(stream, rank, line);
            }
            return;
        }
        let whole = extent.printed == extent.kept;
        extent.printed += data.len() as u64;
        if !whole {
            return;
        }
        if extent.printed > limit {
            let limit = output_limit::text(limit);
            let text = format!("{} will be truncated, {limit} limit exceeded", stream.name());
            return self.warn(COMPONENT, &text);
        }
        extent.kept = extent.printed;
        let entry = |encoding, data| Data {
            stream: stream.name(),
            rank: rank.to_string(),
            encoding,
            data: Some(data),
            eof: false,
        };
        match std::str::from_utf8(data) {
            Ok(text) if !is_long_of_short_lines(data) => self.add("data", entry(None, text)),
            _ => self.add("data", entry(Some("base64"), &STANDARD.encode(data))),
        }
    }

    /// Records the end of a task's stream.
    pub(super) fn eof(&mut self, of: Stream, rank: u32) {
        let (stream, rank) = (of.name(), rank.to_string());
        self.add("data", Data { stream, rank, encoding: None, data: None, eof: true });
        let own = self.tasks.own;
        let extent = self.extent(of);
        extent.ended += 1;
        let (all_ended, printed) = (extent.ended == own, extent.printed);
        // As Flux counts: a piece of output that exceeds the limit is left out as a whole.
        let over = printed.saturating_sub(self.limit);
        if all_ended && over > 0 {
            let text = format!("{stream}: {over} of {printed} bytes truncated");
            self.warn(COMPONENT, &text);
        }
    }

    /// Writes the buffered entries, or holds them if they are few. On an error they are lost, but earlier entries are
    /// kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let ended = self.stdout.ended + self.stderr.ended > 0;
        let packed = self.pack.as_mut().map_or(Ok(None), |pack| pack.flush(ended));
        if let Ok(Some(Written { path, offset, size })) = &packed {
            let place = json!({"rank": "0", "path": path, "offset": offset, "size": size});
            self.add("pack", place);
        }
        self.flush_entries().and(packed.map(drop))
    }

    fn flush_entries(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        match &mut self.place {
            Place::Held { entries, .. } if entries.len() + buffer.len() <= MOST_HELD => {
                entries.extend(buffer);
                Ok(())
            }
            Place::Held { .. } => {
                self.move_to_file()?;
                self.buffer = buffer;
                self.flush_entries()
            }
            Place::File { file, written } => {
                if let Err(error) = file.write_all(&buffer) {
                    // A partial line would make the next entry unreadable, so the file is cut back. Errors here
                    // are ignored: the error of the write is the more useful one.
                    let _ = file.set_len(*written);
                    let _ = file.seek(SeekFrom::Start(*written));
                    return Err(error);
                }
                *written += buffer.len() as u64;
                Ok(())
            }
        }
    }

    /// Writes the held entries, and all later ones, to a file, for readers while the job runs. On an error they stay
    /// held.
    pub(in crate::exec::shepherd) fn move_to_file(&mut self) -> io::Result<()> {
        if let Place::Held { entries, files, id } = &self.place {
            let file = files.create_with(*id, entries)?;
            self.place = Place::File { file, written: entries.len() as u64 };
        }
        Ok(())
    }

    /// All entries, at the end of a job whose entries aren't in a file.
    pub(in crate::exec::shepherd) fn take_held(&mut self) -> Option<String> {
        let Place::Held { entries, .. } = &mut self.place else { return None };
        entries.append(&mut self.buffer);
        // JSON is UTF-8.
        String::from_utf8(std::mem::take(entries)).ok()
    }

    fn add(&mut self, name: &'static str, context: impl Serialize) {
        let entry = Entry { timestamp: now().as_secs(), name, context };
        // This can't fail: maps with text keys and finite numbers always serialize, and writing to a
        // vector always succeeds.
        if serde_json::to_writer(&mut self.buffer, &entry).is_ok() {
            self.buffer.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_much_output_of_short_lines_is_not_written_as_text() {
        assert!(is_long_of_short_lines(&b"y\n".repeat(LONG / 2)));
        assert!(!is_long_of_short_lines(&b"y\n".repeat(LONG / 2 - 1)));
        assert!(!is_long_of_short_lines(&b"a line of more than thirty-two bytes\n".repeat(LONG)));
        assert!(!is_long_of_short_lines(&vec![b'x'; LONG]));
    }

    fn tasks(count: u32) -> TaskCount {
        TaskCount { all: count, own: count }
    }

    #[test]
    fn a_log_has_the_form_of_rfc_24() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OutputLog::in_file(File::create(&path).unwrap(), tasks(2), 1 << 30);
        log.redirect(Stream::Stderr, "0-1", "e.txt");
        log.data(Stream::Stdout, 1, b"hi\n");
        log.data(Stream::Stdout, 0, b"\xff");
        log.eof(Stream::Stdout, 1);
        log.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let entries: Vec<(String, Value)> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|entry| {
                assert!(entry["timestamp"].is_f64());
                (entry["name"].as_str().unwrap().to_owned(), entry["context"].clone())
            })
            .collect();
        let utf8 = json!({"stdout": "UTF-8", "stderr": "UTF-8"});
        let count = json!({"stdout": 2, "stderr": 2});
        let expected = [
            ("header", json!({"version": 1, "encoding": utf8, "count": count, "options": {}})),
            ("redirect", json!({"stream": "stderr", "rank": "0-1", "path": "e.txt"})),
            ("data", json!({"stream": "stdout", "rank": "1", "data": "hi\n"})),
            (
                "data",
                json!({"stream": "stdout", "rank": "0", "encoding": "base64", "data": "/w=="}),
            ),
            ("data", json!({"stream": "stdout", "rank": "1", "eof": true})),
        ];
        assert_eq!(entries, expected.map(|(name, context)| (name.to_owned(), context)));
    }

    #[test]
    fn output_over_the_limit_is_counted_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OutputLog::in_file(File::create(&path).unwrap(), tasks(2), 12);
        for rank in [0, 1] {
            log.data(Stream::Stdout, rank, b"1234\n");
        }
        log.data(Stream::Stdout, 0, b"\n");
        log.data(Stream::Stdout, 0, b"more\n");
        log.data(Stream::Stderr, 0, b"error\n");
        log.flush().unwrap();
        let kept = std::fs::metadata(&path).unwrap().len();
        for _ in 0..1000 {
            log.data(Stream::Stdout, 1, &[b'x'; 1000]);
        }
        log.flush().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), kept);
        for (stream, rank) in [(Stream::Stdout, 0), (Stream::Stderr, 0), (Stream::Stderr, 1)] {
            log.eof(stream, rank);
        }
        log.eof(Stream::Stdout, 1);
        log.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let context = |line: &str| serde_json::from_str::<Value>(line).unwrap()["context"].clone();
        let said: Vec<String> = text
            .lines()
            .map(context)
            .filter_map(|context| {
                let text = context.get("data").or(context.get("message"))?;
                Some(text.as_str()?.to_owned())
            })
            .collect();
        let expected = [
            "1234\n",
            "1234\n",
            "\n",
            "stdout will be truncated, 12 limit exceeded",
            "error\n",
            "stdout: 1000004 of 1000016 bytes truncated",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut log = OutputLog::in_file(full, tasks(1), 1);
        assert_eq!(log.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    const ID: JobId = JobId::new(7);

    /// A log that is held in memory, and the path of its file, if it gets one.
    fn held(state: &tempfile::TempDir) -> (OutputLog, std::path::PathBuf) {
        let files = Arc::new(JobFiles::open(state.path(), "output").unwrap());
        let path = state.path().join("output/0000.0000.0000.0007");
        (OutputLog::held(files, ID, tasks(1), 1 << 20), path)
    }

    fn printed(text: &str) -> String {
        let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter_map(|entry| Some(entry["context"]["data"].as_str()?.to_owned())).collect()
    }

    #[test]
    fn little_output_needs_no_file() {
        let state = tempfile::tempdir().unwrap();
        let (mut log, path) = held(&state);
        log.data(Stream::Stdout, 0, b"one\n");
        log.flush().unwrap();
        log.data(Stream::Stdout, 0, b"two\n");
        let text = log.take_held().unwrap();
        assert_eq!((printed(&text).as_str(), path.exists()), ("one\ntwo\n", false));
        assert!(text.starts_with("{\"timestamp\":") && text.contains("\"header\""), "{text}");
    }

    #[test]
    fn much_output_goes_to_a_file_as_it_comes() {
        let state = tempfile::tempdir().unwrap();
        let (mut log, path) = held(&state);
        let line = "0123456789".repeat(10) + "\n";
        let mut expected = String::new();
        while !path.exists() {
            assert!(expected.len() <= MOST_HELD, "it is still held");
            log.data(Stream::Stdout, 0, line.as_bytes());
            log.flush().unwrap();
            expected += &line;
        }
        log.data(Stream::Stdout, 0, b"end\n");
        log.flush().unwrap();
        assert_eq!(printed(&std::fs::read_to_string(&path).unwrap()), expected + "end\n");
        assert_eq!(log.take_held(), None, "the manager reads the file");
    }

    #[test]
    fn output_that_cannot_be_written_stays_held() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join("output"), "in the way").unwrap();
        let (mut log, _) = held(&state);
        log.data(Stream::Stdout, 0, b"early\n");
        log.flush().unwrap();
        log.move_to_file().unwrap_err();
        log.data(Stream::Stdout, 0, &[b'x'; MOST_HELD]);
        log.flush().unwrap_err();
        log.data(Stream::Stdout, 0, b"late\n");
        log.flush().unwrap();
        assert_eq!(printed(&log.take_held().unwrap()), "early\nlate\n");
    }
}
