//! The manager's log: the last lines in memory, the severe ones on standard error, and streams of new
//! lines.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::{Level, LogLine};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::rpc::errno::{ENODATA, EOVERFLOW};
use crate::rpc::services::log as wire;
use crate::rpc::{RpcError, RpcResult};
use crate::stderr;

/// How many lines are kept in memory, unless `log.ring-size` says otherwise.
const KEPT: usize = 4096;
/// The maximum length of a line in memory, in bytes. A client's name or note in it may be as long as a request.
const LONGEST: usize = 16 * 1024;
/// How many bytes of the name of a script are kept, as in RFC 5424.
const LONGEST_NAME: usize = 48;
/// How many lines may wait for a slow client. The stream of one that is slower still is ended.
const WAITING: usize = 4096;

/// The warning that is logged once when lines cannot be written to standard error.
const STDERR_DROPS: &str = "lines can't be written to standard error and are dropped there; they are \
                            kept here, and stats-get counts them (stderr.dropped)";

/// `log.ring-size` is not a number of lines.
#[derive(Debug, thiserror::Error)]
#[error("log.ring-size: {0} is not a number of lines, 1 or more")]
pub struct RingSizeError(String);

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// When it was written, in seconds since the UNIX epoch.
    pub time: f64,
    /// Who wrote it.
    origin: Origin,
    /// The message.
    pub text: String,
}

/// Who wrote a line.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
    /// The manager, with this severity.
    Manager(Level),
    /// An administrator's script: the name, the severity and the rank, as they are shown.
    Script(String),
}

impl Line {
    /// The line as `log.dmesg` shows it.
    pub fn shown(&self) -> wire::Line {
        let text = match &self.origin {
            Origin::Manager(level) => stderr::render(*level, &self.text),
            Origin::Script(source) => format!("{source}: {}", self.text),
        };
        wire::Line { timestamp: self.time, text }
    }

    /// The line as a response in a stream.
    fn to_json(&self) -> Value {
        json!(self.shown())
    }
}

/// The log, shared by all threads of the manager.
#[derive(Debug)]
pub struct Log {
    ring: Mutex<Ring>,
    size: usize,
    to_stderr: Mutex<Level>,
    /// Whether nothing is written to standard error, whatever its severity.
    in_memory: bool,
    /// Whether [`STDERR_DROPS`] was logged.
    said_dropped: AtomicBool,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<Line>,
    streams: Vec<Sender<RpcResult>>,
}

/// How many lines are kept according to `config`.
///
/// # Errors
/// A value that is not a number of lines.
pub fn ring_size(config: &Value) -> Result<usize, RingSizeError> {
    let Some(size) = config.pointer("/log/ring-size") else {
        return Ok(KEPT);
    };
    let number = size.as_u64().filter(|size| *size > 0);
    let number = number.and_then(|size| usize::try_from(size).ok());
    number.ok_or_else(|| RingSizeError(size.to_string()))
}

impl Log {
    /// A log that also writes lines of at least this severity to standard error.
    pub fn new(to_stderr: Level) -> Self {
        let (ring, said_dropped) = Default::default();
        let (to_stderr, in_memory) = (Mutex::new(to_stderr), false);
        Self { ring, size: KEPT, to_stderr, in_memory, said_dropped }
    }

    /// A log that writes nothing to standard error.
    pub fn in_memory() -> Self {
        Self { in_memory: true, ..Self::new(Level::Error) }
    }

    /// Sets the number of lines in memory.
    pub fn with_size(self, size: usize) -> Self {
        Self { size, ..self }
    }

    /// Writes lines of at least this severity to standard error from now on.
    pub(super) fn set_stderr_level(&self, level: Level) {
        *self.to_stderr.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// The lowest severity of the lines on standard error.
    pub(super) fn stderr_level(&self) -> Level {
        *self.to_stderr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line of this severity is written to standard error, too.
    fn is_written(&self, level: Level) -> bool {
        !self.in_memory && level <= self.stderr_level()
    }

    /// Writes lines of the engine.
    pub fn write_all(&self, lines: Vec<LogLine>) {
        for line in lines {
            self.write(line.level, &line.text);
        }
    }

    /// Adds a message; several lines of text become several log lines.
    pub fn write(&self, level: Level, text: &str) {
        for text in text.lines() {
            if self.is_written(level) {
                stderr::log(level, text);
            }
            self.keep(Origin::Manager(level), text);
        }
        // Another thread writes, so a dropped line is noticed only when a later one is logged.
        if stderr::dropped() > 0 && !self.said_dropped.swap(true, Ordering::Relaxed) {
            self.keep(Origin::Manager(Level::Warning), STDERR_DROPS);
        }
    }

    /// Adds the message of a script. An empty text becomes one empty line.
    pub(super) fn append(&self, message: &wire::Append) {
        let wire::Append { appname, severity, rank, text } = message;
        let appname = appname.get(..appname.floor_char_boundary(LONGEST_NAME)).unwrap_or_default();
        let source = format!("{appname}.{}[{rank}]", severity.name());
        let first = text.is_empty().then_some("");
        for text in first.into_iter().chain(text.lines()) {
            let level = level_of(*severity);
            if self.is_written(level) {
                stderr::line_of(level, &format!("{source}: {text}"));
            }
            self.keep(Origin::Script(source.clone()), text);
        }
    }

    /// Adds a line to those in memory and sends it to all streams.
    fn keep(&self, origin: Origin, text: &str) {
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
        let line = Line { time: crate::clock::now().as_secs(), origin, text: text.to_owned() };
        let mut ring = self.lock();
        ring.streams.retain(|stream| {
            // The last free place is reserved for the error that ends the stream.
            if stream.capacity() > 1 {
                return stream.try_send(Ok(line.to_json())).is_ok();
            }
            let text = "lines were lost: they came faster than they were read";
            let _ = stream.try_send(Err(RpcError::new(EOVERFLOW, text)));
            false
        });
        while ring.lines.len() >= self.size {
            ring.lines.pop_front();
        }
        ring.lines.push_back(line);
    }

    /// The lines in memory, the oldest first.
    pub fn lines(&self) -> Vec<Line> {
        self.lock().lines.iter().cloned().collect()
    }

    /// Removes the lines in memory.
    pub fn clear(&self) {
        self.lock().lines.clear();
    }

    /// Returns a stream of new lines until [`close`](Self::close), preceded by those in memory if `backlog`.
    pub fn follow(&self, backlog: bool) -> Receiver<RpcResult> {
        let mut ring = self.lock();
        let past = if backlog { ring.lines.len() } else { 0 };
        let (sender, receiver) = channel(past + WAITING);
        for line in ring.lines.iter().take(past) {
            // Cannot fail: the channel was made with room for all of them.
            let _ = sender.try_send(Ok(line.to_json()));
        }
        // Removes streams whose clients have left since the last line.
        ring.streams.retain(|stream| !stream.is_closed());
        ring.streams.push(sender);
        receiver
    }

    /// Ends all streams, since the manager ends.
    pub fn close(&self) {
        for stream in self.lock().streams.drain(..) {
            let _ = stream.try_send(Err(RpcError::new(ENODATA, "")));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the manager's own level for a severity, which decides whether a message goes to standard error.
fn level_of(severity: wire::Severity) -> Level {
    use wire::Severity::{Alert, Crit, Debug, Emerg, Err, Info, Notice, Warning};
    match severity {
        Emerg | Alert | Crit | Err => Level::Error,
        Warning => Level::Warning,
        Notice | Info => Level::Info,
        Debug => Level::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_script_names_its_source() {
        let log = Log::new(Level::Error);
        let severity = wire::Severity::Crit;
        let mut message =
            wire::Append { appname: "x".repeat(99), severity, rank: 2, text: "a\nb".into() };
        log.append(&message);
        message.text.clear();
        log.append(&message);
        let shown: Vec<_> = log.lines().iter().map(|line| line.shown().text).collect();
        let source = format!("{}.crit[2]", "x".repeat(48));
        assert_eq!(shown, ["a", "b", ""].map(|text| format!("{source}: {text}")));
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let log = Log::new(Level::Error).with_size(3);
        for i in 0..5 {
            log.write(Level::Debug, &i.to_string());
        }
        let texts = || log.lines().into_iter().map(|line| line.text).collect::<Vec<_>>();
        assert_eq!(texts(), ["2", "3", "4"]);
        log.clear();
        assert!(texts().is_empty());
        log.write(Level::Debug, &"\u{f6}".repeat(LONGEST));
        assert_eq!(log.lines().first().unwrap().text.len(), LONGEST);
        assert_eq!(ring_size(&json!({"log": {"ring-size": 9}})).unwrap(), 9);
        assert!(ring_size(&json!({"log": {"ring-size": 0}})).is_err());
    }

    #[test]
    fn a_stream_has_new_lines_and_old_ones_on_request() {
        let log = Log::new(Level::Error);
        log.write(Level::Info, "old");
        let (mut both, mut new) = (log.follow(true), log.follow(false));
        log.write(Level::Info, "new");
        log.close();
        let read = |receiver: &mut Receiver<RpcResult>| {
            let mut texts = Vec::new();
            while let Ok(Ok(line)) = receiver.try_recv() {
                texts.push(line["text"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned());
            }
            texts
        };
        assert_eq!(read(&mut both), ["old", "new"]);
        assert_eq!(read(&mut new), ["new"]);
    }
}
