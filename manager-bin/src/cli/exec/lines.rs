//! The output of a command, which is printed by whole lines, so that commands don't write into each other's.

use std::io::Write;

use crate::cli::common::message::CliError;
use crate::cli::common::session;

/// The longest line that is printed whole.
const LONGEST: usize = 1024 * 1024;

/// One output of one command.
pub(super) struct Lines<W> {
    /// What each line begins with.
    label: Option<String>,
    /// The beginning of a line whose end hasn't come yet.
    held: Vec<u8>,
    /// Whether what comes next begins a line.
    at_start: bool,
    to: fn() -> W,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(label: Option<&str>, to: fn() -> W) -> Self {
        Self { label: label.map(str::to_owned), held: Vec::new(), at_start: true, to }
    }

    /// Prints the lines that these bytes complete.
    pub(super) fn print(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        // What is held has no end of a line.
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            _ if self.held.len() >= LONGEST => self.write(self.held.len()),
            Some(last) => self.write(before + last + 1),
            None => Ok(()),
        }
    }

    /// Prints what is left when the output has ended.
    pub(super) fn end(&mut self) -> Result<(), CliError> {
        self.write(self.held.len())
    }

    fn write(&mut self, count: usize) -> Result<(), CliError> {
        let lines: Vec<u8> = self.held.drain(..count).collect();
        let lines = labelled(&lines, self.label.as_deref(), &mut self.at_start);
        session::write(&mut (self.to)(), &lines)
    }
}

/// The lines with the label in front of each. `at_start` says whether they begin at the start of a line.
fn labelled(lines: &[u8], label: Option<&str>, at_start: &mut bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if *at_start {
            out.extend_from_slice(label.unwrap_or_default().as_bytes());
        }
        out.extend_from_slice(line);
        *at_start = line.ends_with(b"\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_label_once() {
        let mut at_start = true;
        let mut of = |text: &str| {
            String::from_utf8(labelled(text.as_bytes(), Some("2: "), &mut at_start)).unwrap()
        };
        assert_eq!(of("a\nb\n\n"), "2: a\n2: b\n2: \n");
        assert_eq!(of("long"), "2: long");
        assert_eq!(of(" line\nc"), " line\n2: c");
        assert_eq!(of(""), "");
    }
}
