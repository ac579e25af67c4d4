//! Prints the output of a job's tasks, which is an eventlog (RFC 24), to standard output and standard error.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;

use super::event_stream::{integer, text};
use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::shown;

/// How output is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::cli) struct Output {
    /// Prefix each line with the task rank.
    pub(in crate::cli) label: bool,
    /// Prefix each line with the id of this job too, where the output of several is printed.
    pub(in crate::cli) job: Option<JobId>,
    /// Print no message about streams that are redirected to files.
    pub(in crate::cli) quiet: bool,
}

impl Output {
    /// Prints an event of the output log.
    pub(in crate::cli) fn show(self, event: &EventEntry) -> Result<(), CliError> {
        match self.bytes(event) {
            Some((true, bytes)) => session::write(&mut io::stderr().lock(), &bytes),
            Some((false, bytes)) => session::write(&mut io::stdout().lock(), &bytes),
            None => Ok(()),
        }
    }

    /// What an event of the output log prints, and true if it belongs on standard error.
    pub(in crate::cli) fn bytes(self, event: &EventEntry) -> Option<(bool, Vec<u8>)> {
        let (stream, rank) = (text(event, "stream"), text(event, "rank").unwrap_or("0"));
        match &*event.name {
            "data" => Some((stream == Some("stderr"), self.labeled(rank, data(event)))),
            "redirect" if !self.quiet => {
                let path = text(event, "path").unwrap_or_default();
                let stream = stream.unwrap_or_default();
                let line = format!("{rank}: {stream} redirected to {path}\n");
                Some((true, line.into_bytes()))
            }
            "log" => Some((true, (shell_line(event)? + "\n").into_bytes())),
            _ => None,
        }
    }

    fn labeled(self, rank: &str, data: Vec<u8>) -> Vec<u8> {
        if !self.label {
            return data;
        }
        let job = self.job.map(|id| format!("{}: ", show_id(id))).unwrap_or_default();
        let label = format!("{job}{rank}: ");
        let lines = data.split_inclusive(|byte| *byte == b'\n');
        lines.flat_map(|line| label.bytes().chain(line.iter().copied())).collect()
    }
}

/// The bytes of a data event. Empty at the end of a stream.
fn data(event: &EventEntry) -> Vec<u8> {
    let data = text(event, "data").unwrap_or_default();
    match text(event, "encoding") {
        Some("base64") => BASE64_STANDARD.decode(data).unwrap_or_default(),
        _ => data.as_bytes().to_vec(),
    }
}

/// A line of Flux's job shell about the job; `None` for one that isn't shown.
pub(super) fn shell_line(event: &EventEntry) -> Option<String> {
    let level = match integer(event, "level") {
        Some(0..=2) => "FATAL: ",
        Some(3) => "ERROR: ",
        Some(4) => " WARN: ",
        Some(5) => "",
        _ => return None,
    };
    let rank = integer(event, "rank").unwrap_or(0);
    let component = text(event, "component").map(|component| format!("{component}: "));
    let component = component.unwrap_or_default();
    let message = shown::in_line(text(event, "message").unwrap_or_default());
    Some(format!("jobtap-shell[{rank}]: {level}{component}{message}"))
}

/// The number of lines of output in an event.
pub(super) fn lines(event: &EventEntry) -> usize {
    match &*event.name {
        "data" => data(event).split_inclusive(|byte| *byte == b'\n').count(),
        _ => 0,
    }
}

/// An exception event as `type=T severity=N NOTE`.
pub(in crate::cli) fn show_exception(event: &EventEntry) -> String {
    format!(
        "type={} severity={} {}",
        shown::in_line(text(event, "type").unwrap_or_default()),
        integer(event, "severity").unwrap_or(0),
        shown::in_line(text(event, "note").unwrap_or_default())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_gets_its_label() {
        let output = Output { label: true, ..Output::default() };
        assert_eq!(output.labeled("3", b"a\nb\n".to_vec()), b"3: a\n3: b\n");
        assert_eq!(output.labeled("3", b"part".to_vec()), b"3: part");
        assert_eq!(Output::default().labeled("3", b"a\n".to_vec()), b"a\n");
    }

    #[test]
    fn output_that_is_not_utf8_is_printed_unchanged() {
        let line = "{\"timestamp\":1.0,\"name\":\"data\",\"context\":{\"stream\":\"stdout\",\"rank\":\"0\",\"encoding\":\"base64\",\"data\":\"/wo=\"}}\n";
        assert_eq!(data(&EventEntry::decode(line).unwrap()), b"\xff\n");
    }
}
