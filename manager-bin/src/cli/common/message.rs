//! The messages of the commands: their prefix, the errors with which commands exit, and the streams to which
//! they are written.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// The name by which the program was started, such as `flux` or that of a custom manager. Messages begin with
/// it.
#[derive(Debug, Clone)]
pub(crate) struct Prog(String);

impl Prog {
    /// The file name in `argv[0]` of this process.
    pub(crate) fn current() -> Self {
        let path = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        Prog(name.unwrap_or_else(|| "jobtap".to_owned()))
    }

    /// Whether the program was started as `flux`.
    pub(crate) fn is_flux(&self) -> bool {
        self.0 == "flux"
    }

    /// A program with the name `name`.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Prog(name.to_owned())
    }

    /// The name of `command` in messages: `PROG-COMMAND`.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("{}-{command}", self.0)
    }

    /// An error of a script command: `PROG-COMMAND: ERROR: TEXT`.
    pub(crate) fn error(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: ERROR: {text}", self.0)
    }

    /// An informational message of `command`: `PROG-COMMAND: INFO: TEXT`.
    pub(crate) fn info(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: INFO: {text}", self.0)
    }

    /// A message of a compiled command, which can be an error: `PROG-COMMAND: TEXT`.
    pub(crate) fn plain(&self, command: &str, text: impl Display) -> String {
        format!("{}-{command}: {text}", self.0)
    }

    /// The hint that points to the help of `command`: `Try 'PROG COMMAND --help' for more information.`
    pub(crate) fn hint(&self, command: &str) -> String {
        format!("Try '{} {command} --help' for more information.", self.0)
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

/// The error with which a command exits: the text of its message, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CliError {
    /// The text after `ERROR: `. Empty if no message is printed.
    pub(crate) text: String,
    /// The exit code: 1 for a failure, 2 for a usage error.
    pub(crate) code: u8,
}

impl CliError {
    /// A failure, with exit code 1.
    pub(crate) fn failure(text: impl Display) -> Self {
        CliError { text: text.to_string(), code: 1 }
    }

    /// A malformed argument, with exit code 2.
    pub(crate) fn usage(text: impl Display) -> Self {
        CliError { text: text.to_string(), code: 2 }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        CliError::failure(system_text(&error))
    }
}

/// The exit code of a command whose output pipe is closed: that of a process terminated by SIGPIPE.
const CLOSED_PIPE: u8 = 128 + 13;

impl CliError {
    /// The error that output can't be written. It has no message if a reader such as head(1) has closed the
    /// pipe.
    pub(crate) fn write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError { text: String::new(), code: CLOSED_PIPE },
            _ => CliError::failure(format!("write error: {}", system_text(error))),
        }
    }
}

/// The text of a system error without the errno that Rust appends.
pub(crate) fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

/// Standard input, output and error of a command. Tests use buffers instead.
pub(crate) struct Streams<'a> {
    pub(crate) input: &'a mut dyn BufRead,
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
}

impl Streams<'_> {
    /// Prints to standard output. Returns `Ok` if a reader such as head(1) has closed the pipe.
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
    fn a_closed_pipe_has_no_message_but_a_full_disk_has() {
        let closed = CliError::write(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((closed.text.as_str(), closed.code), ("", 141));
        let full = CliError::write(&io::Error::from_raw_os_error(28));
        assert_eq!(full.text, "write error: No space left on device");
        assert_eq!(full.code, 1);
    }

    #[test]
    fn messages_begin_with_program_and_command() {
        let prog = Prog::named("jobtap");
        assert_eq!(prog.error("jobs", "no"), "jobtap-jobs: ERROR: no");
        assert_eq!(prog.warning("jobs", "odd"), "jobtap-jobs: WARNING: odd");
        assert_eq!(prog.info("update", "done"), "jobtap-update: INFO: done");
    }
}
