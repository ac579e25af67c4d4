//! The messages of the commands: their prefix, and the errors that end a command.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// The name that the program was started by; messages begin with it, so that a script sees which
/// of its commands failed even through a link or a custom manager.
#[derive(Debug, Clone)]
pub(crate) struct Prog(String);

impl Prog {
    /// The name in this process's argv\[0\], without its directory.
    pub(crate) fn current() -> Self {
        let path = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        Prog(name.unwrap_or_else(|| "jobtap".to_owned()))
    }

    /// A program of this name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Prog(name.to_owned())
    }

    /// The name of `command` in messages: `PROG-COMMAND`.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("{}-{command}", self.0)
    }

    /// The message that `command` failed: `PROG-COMMAND: ERROR: TEXT`.
    pub(crate) fn error(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: ERROR: {text}", self.0)
    }

    /// The message that `command` did something: `PROG-COMMAND: INFO: TEXT`.
    pub(crate) fn info(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: INFO: {text}", self.0)
    }

    /// A message of the compiled kind of commands, errors included: `PROG-COMMAND: TEXT`.
    pub(crate) fn plain(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: {text}", self.0)
    }

    /// A warning of `command`, which continues: `PROG-COMMAND: WARNING: TEXT`.
    pub(crate) fn warning(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: WARNING: {text}", self.0)
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What ends a command: the text of its error line and its exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CliError {
    /// What follows `ERROR: `.
    pub(crate) text: String,
    /// 1 for a failure, 2 for a wrong usage.
    pub(crate) code: u8,
}

impl CliError {
    /// A failure: exit code 1.
    pub(crate) fn failure(text: impl Display) -> Self {
        CliError { text: text.to_string(), code: 1 }
    }

    /// An argument that is malformed: exit code 2.
    pub(crate) fn usage(text: impl Display) -> Self {
        CliError { text: text.to_string(), code: 2 }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        CliError::failure(system_text(&error))
    }
}

/// The exit code of a command whose reader has closed the pipe: that of a process that SIGPIPE ended.
const READER_GONE: u8 = 128 + 13;

impl CliError {
    /// The error of output that cannot be written. A reader that has closed the pipe, such as head(1), gets no
    /// message.
    pub(crate) fn write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError { text: String::new(), code: READER_GONE },
            _ => CliError::failure(format!("write error: {}", system_text(error))),
        }
    }
}

/// The text of a system error without the number that Rust adds.
pub(crate) fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

/// Standard input, output and error of a command; tests put buffers in their place.
pub(crate) struct Streams<'a> {
    pub(crate) input: &'a mut dyn BufRead,
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
}

impl Streams<'_> {
    /// Prints to standard output. A reader that has closed the pipe, such as head(1), is no error.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), CliError> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| CliError::write(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_message_and_a_full_disk_is_one() {
        let gone = CliError::write(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((gone.text.as_str(), gone.code), ("", 141));
        let full = CliError::write(&io::Error::from_raw_os_error(28));
        assert_eq!(full.text, "write error: No space left on device");
        assert_eq!(full.code, 1);
    }

    #[test]
    fn messages_name_program_command_and_kind() {
        let prog = Prog::named("jobtap");
        assert_eq!(prog.error("jobs", "no"), "jobtap-jobs: ERROR: no");
        assert_eq!(prog.warning("jobs", "odd"), "jobtap-jobs: WARNING: odd");
        assert_eq!(prog.info("update", "done"), "jobtap-update: INFO: done");
    }
}
