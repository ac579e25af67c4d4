//! The output of a job's tasks, which is an eventlog (RFC 24): prints its events to standard output and standard error.
//!
//! The log may be long, so many events are read at a time, and only what is needed to print them is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::{JobId, Timestamp};
use jobtap_core::resource::Idset;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::work;
use crate::client::{Client, Lines, RpcError};
use crate::output_pack::PackReader;
use crate::rpc::errno::{ENODATA, EPROTO};
use crate::rpc::services::job_info::Watch;
use crate::shown;

/// The key of the log with the output of a job's tasks.
pub(in crate::cli) const OUTPUT: &str = "guest.output";

/// How output is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::cli) struct Output {
    /// Prefix each line with the task rank.
    pub(in crate::cli) label: bool,
    /// Prefix each line with this job id too, when the output of several jobs is printed.
    pub(in crate::cli) job: Option<JobId>,
    /// Print no message about streams that are redirected to files.
    pub(in crate::cli) quiet: bool,
}

/// The output log of a job, as it grows.
pub(in crate::cli) struct OutputStream(Lines);

/// Several events of an output log, as the manager has sent them.
pub(in crate::cli) struct Piece(Vec<u8>);

/// A response with a piece of an output log, or the end of it.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    payload: Payload<'a>,
    errno: Option<i32>,
    #[serde(default)]
    error: String,
}

#[derive(Default, Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    events: Vec<OutputEvent<'a>>,
}

/// An event of an output log.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct OutputEvent<'a> {
    pub(in crate::cli) timestamp: Timestamp,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    context: Context<'a>,
}

/// The members that the contexts of the various events can have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context<'a> {
    #[serde(borrow)]
    stream: Cow<'a, str>,
    /// A text in most events, a number in messages.
    #[serde(borrow)]
    rank: Option<&'a RawValue>,
    /// A text in data, an object in the header.
    #[serde(borrow)]
    encoding: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Cow<'a, str>,
    eof: bool,
    path: String,
    /// Where a block of an output pack is.
    offset: u64,
    count: BTreeMap<String, u64>,
    level: Option<i64>,
    component: Option<String>,
    message: String,
}

/// What an event means to a client that watches the output.
pub(in crate::cli) enum Meaning {
    /// The number of streams of tasks.
    Streams(u64),
    /// This number of streams ends here.
    Ended(u64),
    /// A line of Flux's job shell about the job, as it is shown.
    Message(String),
    Other,
}

/// Bytes for standard output (`stderr` is false) and standard error, in the order in which they are to be written.
#[derive(Default)]
pub(in crate::cli) struct Pieces {
    before: Vec<(bool, Vec<u8>)>,
    /// Where the last bytes go.
    stderr: bool,
    bytes: Vec<u8>,
}

impl OutputStream {
    /// Watches the output of a job. With `sentinel`, an empty piece follows the output so far.
    pub(in crate::cli) async fn open(
        client: &Client,
        id: JobId,
        sentinel: bool,
    ) -> Result<Self, RpcError> {
        let flags = if sentinel { Watch::INITIAL_SENTINEL } else { 0 };
        let request = Watch { batch: true, ..Watch::new(id, OUTPUT, flags) };
        client.lines(request).await.map(Self)
    }

    /// The next piece.
    ///
    /// # Errors
    /// The connection is lost.
    pub(in crate::cli) async fn next(&mut self) -> Result<Piece, RpcError> {
        self.0.next().await.map(Piece)
    }
}

impl Piece {
    /// The events of this piece; `None` at the end of the log.
    ///
    /// # Errors
    /// The manager's refusal, or EPROTO for anything other than events.
    pub(in crate::cli) fn events(&self) -> Result<Option<Vec<OutputEvent<'_>>>, RpcError> {
        let response: Response<'_> = serde_json::from_slice(&self.0)
            .map_err(|error| RpcError::new(EPROTO, format!("malformed output: {error}")))?;
        match response.errno {
            None => Ok(Some(response.payload.events)),
            Some(ENODATA) => Ok(None),
            Some(errno) => Err(RpcError::new(errno, response.error)),
        }
    }
}

impl OutputEvent<'_> {
    /// What the event means apart from what it prints.
    pub(in crate::cli) fn meaning(&self) -> Meaning {
        match &*self.name {
            "header" => Meaning::Streams(self.context.count.values().sum()),
            // A stream that goes to a file has no further entries here.
            "redirect" => {
                let ranks = self.rank().parse::<Idset>();
                Meaning::Ended(ranks.map_or(1, |ranks| ranks.len() as u64))
            }
            "data" if self.context.eof => Meaning::Ended(1),
            "log" => self.shell_line().map_or(Meaning::Other, Meaning::Message),
            _ => Meaning::Other,
        }
    }

    /// The tasks that an event is about.
    fn rank(&self) -> &str {
        self.context.rank.map_or("0", |rank| rank.get().trim_matches('"'))
    }

    /// The bytes of a data event. Empty at the end of a stream.
    fn data(&self) -> Cow<'_, [u8]> {
        let data = self.context.data.as_bytes();
        match self.context.encoding.map(RawValue::get) {
            Some("\"base64\"") => BASE64_STANDARD.decode(data).unwrap_or_default().into(),
            _ => data.into(),
        }
    }

    fn shell_line(&self) -> Option<String> {
        let Context { level, component, message, .. } = &self.context;
        shell_line(*level, self.rank(), component.as_deref(), message)
    }
}

impl Output {
    /// Adds what an event of the job `id` prints.
    pub(in crate::cli) fn show(self, id: JobId, event: &OutputEvent<'_>, pieces: &mut Pieces) {
        match &*event.name {
            "data" => {
                let text = pieces.buffer(event.context.stream == "stderr");
                let data = event.data();
                match self.label(event) {
                    None => text.extend_from_slice(&data),
                    Some(label) => {
                        for line in data.split_inclusive(|byte| *byte == b'\n') {
                            text.extend_from_slice(label.as_bytes());
                            text.extend_from_slice(line);
                        }
                    }
                }
            }
            "pack" => self.show_block(id, event, pieces),
            "redirect" if !self.quiet => {
                let Context { stream, path, .. } = &event.context;
                let line = format!("{}: {stream} redirected to {path}\n", event.rank());
                pieces.buffer(true).extend_from_slice(line.as_bytes());
            }
            "log" => {
                if let Some(line) = event.shell_line() {
                    pieces.add_line(&line);
                }
            }
            _ => {}
        }
    }

    /// Adds a block of the output pack of the job `id`.
    fn show_block(self, id: JobId, event: &OutputEvent<'_>, pieces: &mut Pieces) {
        let Context { path, offset, .. } = &event.context;
        let mut pack = match PackReader::open(Path::new(path)) {
            Ok(pack) => pack,
            Err(error) => return pieces.add_line(&format!("{path}: {error}")),
        };
        match pack.at(*offset) {
            Ok(Some(block)) if block.of.job == id => {
                let job = self.job.map(|id| format!("{}: ", show_id(id))).unwrap_or_default();
                for (piece, data) in block.each() {
                    let text = pieces.buffer(piece.stream == "stderr");
                    if !self.label {
                        text.extend_from_slice(data);
                        continue;
                    }
                    for line in data.split_inclusive(|byte| *byte == b'\n') {
                        text.extend_from_slice(format!("{job}{}: ", piece.rank).as_bytes());
                        text.extend_from_slice(line);
                    }
                }
            }
            // Another job's block is there if the file was removed and made anew.
            Ok(_) => {
                pieces.add_line(&format!("{path}: the output of the job isn't there any more"))
            }
            Err(error) => pieces.add_line(&format!("{path}: {error}")),
        }
    }

    /// The lines that an event prints, each with true if it belongs on standard error.
    pub(in crate::cli) fn lines(self, event: &OutputEvent<'_>) -> Vec<(bool, Vec<u8>)> {
        if event.name != "data" {
            return Vec::new();
        }
        let stderr = event.context.stream == "stderr";
        let label = self.label(event).unwrap_or_default();
        let data = event.data();
        let lines = data.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| (stderr, [label.as_bytes(), line].concat())).collect()
    }

    fn label(self, event: &OutputEvent<'_>) -> Option<String> {
        let job = self.job.map(|id| format!("{}: ", show_id(id))).unwrap_or_default();
        self.label.then(|| format!("{job}{}: ", event.rank()))
    }
}

impl Pieces {
    /// The buffer for the next bytes of standard output or standard error.
    pub(in crate::cli) fn buffer(&mut self, stderr: bool) -> &mut Vec<u8> {
        if self.stderr != stderr {
            self.end_piece();
            self.stderr = stderr;
        }
        &mut self.bytes
    }

    fn end_piece(&mut self) {
        if !self.bytes.is_empty() {
            self.before.push((self.stderr, std::mem::take(&mut self.bytes)));
        }
    }

    /// Adds a message, which goes to standard error.
    pub(in crate::cli) fn add_line(&mut self, line: &str) {
        let text = self.buffer(true);
        text.extend_from_slice(shown::lines(line).as_bytes());
        text.push(b'\n');
    }

    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.bytes.is_empty()
    }

    /// Passes the bytes to `write` in their order.
    pub(in crate::cli) fn each(
        mut self,
        mut write: impl FnMut(bool, &[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        self.end_piece();
        self.before.iter().try_for_each(|(stderr, bytes)| write(*stderr, bytes))
    }

    /// Writes the bytes to standard output and standard error, which blocks while their readers don't read.
    pub(in crate::cli) fn write(self) -> Result<(), CliError> {
        self.each(|stderr, bytes| {
            work::beside(|| match stderr {
                true => session::write(&mut io::stderr().lock(), bytes),
                false => session::write(&mut io::stdout().lock(), bytes),
            })
        })
    }
}

/// A line of Flux's job shell about the job; `None` for one that isn't shown.
fn shell_line(
    level: Option<i64>,
    rank: &str,
    component: Option<&str>,
    message: &str,
) -> Option<String> {
    let level = match level {
        Some(0..=2) => "FATAL: ",
        Some(3) => "ERROR: ",
        Some(4) => " WARN: ",
        Some(5) => "",
        _ => return None,
    };
    let component = component.map(|component| format!("{component}: ")).unwrap_or_default();
    Some(format!("jobtap-shell[{rank}]: {level}{component}{}", shown::in_line(message)))
}

/// An exception event as `type=T severity=N NOTE`.
pub(in crate::cli) fn show_exception(event: &EventEntry) -> String {
    let (kind, severity, note) =
        event.exception().map_or(("", 0, ""), |raised| (raised.kind, raised.severity, raised.note));
    format!("type={} severity={severity} {}", shown::in_line(kind), shown::in_line(note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_pack::{Block, Of};

    fn piece(events: &[&str]) -> Piece {
        let line = format!("{{\"id\":7,\"payload\":{{\"events\":[{}]}}}}\n", events.join(","));
        Piece(line.into_bytes())
    }

    fn data(stream: &str, rank: &str, more: &str) -> String {
        format!(
            r#"{{"timestamp":1.0,"name":"data","context":{{"stream":"{stream}","rank":"{rank}",{more}}}}}"#
        )
    }

    /// What the events print.
    fn printed(output: Output, events: &[&str]) -> Vec<(bool, String)> {
        let piece = piece(events);
        let mut pieces = Pieces::default();
        for event in piece.events().unwrap().unwrap() {
            output.show(JobId::new(1), &event, &mut pieces);
        }
        let mut printed = Vec::new();
        let each = |stderr, bytes: &[u8]| {
            printed.push((stderr, String::from_utf8_lossy(bytes).into_owned()));
            Ok(())
        };
        pieces.each(each).unwrap();
        printed
    }

    #[test]
    fn each_line_gets_its_label() {
        let output = Output { label: true, ..Output::default() };
        let two = data("stdout", "3", r#""data":"a\nb\n""#);
        let part = data("stdout", "4", r#""data":"part""#);
        let text = "3: a\n3: b\n4: part".to_owned();
        assert_eq!(printed(output, &[&two, &part]), [(false, text)]);
    }

    #[test]
    fn output_that_is_not_utf8_is_printed_unchanged() {
        let event = data("stdout", "0", r#""encoding":"base64","data":"/wo=""#);
        let piece = piece(&[&event]);
        let events = piece.events().unwrap().unwrap();
        assert_eq!(*events[0].data(), *b"\xff\n");
    }

    #[test]
    fn events_of_other_kinds_are_read_too() {
        let header = r#"{"timestamp":1.0,"name":"header","context":{"version":1,"encoding":{"stdout":"UTF-8"},"count":{"stdout":2,"stderr":2},"options":{}}}"#;
        let redirect = r#"{"timestamp":1.0,"name":"redirect","context":{"stream":"stdout","rank":"[0-1]","path":"o"}}"#;
        let log = r#"{"timestamp":1.0,"name":"log","context":{"rank":0,"level":4,"component":"c","message":"m"}}"#;
        let eof = data("stderr", "0", r#""eof":true"#);
        let piece = piece(&[header, redirect, log, &eof]);
        let events = piece.events().unwrap().unwrap();
        let meanings: Vec<_> = events.iter().map(OutputEvent::meaning).collect();
        assert!(matches!(
            meanings.as_slice(),
            [Meaning::Streams(4), Meaning::Ended(2), Meaning::Message(_), Meaning::Ended(1)]
        ));
        let text = "[0-1]: stdout redirected to o\njobtap-shell[0]:  WARN: c: m\n".to_owned();
        assert_eq!(printed(Output::default(), &[header, redirect, log]), [(true, text)]);
    }

    #[test]
    fn a_block_of_another_job_is_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let event = format!(
            r#"{{"timestamp":1.0,"name":"pack","context":{{"rank":"0","path":"{path}","offset":0}}}}"#
        );
        let printed_after = |job: u64| {
            let of = Of { job: JobId::new(job), array: None, index: None };
            let mut block = Block::new(of);
            block.add("stdout", 0, 1.0, b"hi\n");
            std::fs::write(path, block.encode()).unwrap();
            printed(Output::default(), &[&event])
        };
        assert_eq!(printed_after(1), [(false, "hi\n".to_owned())]);
        // The file was removed, and another job has made it anew.
        let missing = format!("{path}: the output of the job isn't there any more\n");
        assert_eq!(printed_after(2), [(true, missing)]);
    }

    #[test]
    fn output_and_errors_keep_their_order() {
        let [one, two, three] = [("stdout", "a"), ("stderr", "b"), ("stdout", "c")]
            .map(|(stream, text)| data(stream, "0", &format!("\"data\":\"{text}\"")));
        let expected = [(false, "a"), (true, "b"), (false, "c")];
        let expected = expected.map(|(stderr, text)| (stderr, text.to_owned()));
        assert_eq!(printed(Output::default(), &[&one, &two, &three]), expected);
    }

    #[test]
    fn the_end_and_a_refusal_are_told_apart() {
        let end = |line: &str| Piece(line.as_bytes().to_vec()).events().map(|end| end.is_none());
        assert!(end("{\"id\":7,\"errno\":61,\"error\":\"\"}\n").unwrap());
        let refused = end("{\"id\":7,\"errno\":2,\"error\":\"no\"}\n").unwrap_err();
        assert_eq!((refused.errno, &*refused.text), (2, "no"));
        assert_eq!(end("{\"id\":7,\"payload\":{\"events\":[1]}}\n").unwrap_err().errno, EPROTO);
    }
}
