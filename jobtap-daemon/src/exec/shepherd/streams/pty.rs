//! The shell option `pty`: each task has a terminal of its own as standard input, output and error.
//!
//! The terminal is joined to the job by the pipes that a task without a terminal would have: what the task prints goes
//! where its standard output would go, and input comes from where it would come. At the end of the input, the terminal
//! gets its end-of-file character.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::AbortHandle;

use super::super::job_user::JobUser;
use super::super::option_error::OptionError;
use crate::open_files::OpenFiles;

/// The end-of-file character of a new terminal, Ctrl-D.
const END_OF_FILE: u8 = 4;

/// The default size of terminals.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// The bytes that are copied at once.
const CHUNK: usize = 4096;

/// The option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PtyOptions {
    /// Whether a client types into it: output is passed on as it comes, not line by line.
    pub(super) interactive: bool,
    rows: u16,
    columns: u16,
}

impl PtyOptions {
    /// Reads the option; `None` for tasks without terminal.
    pub(super) fn parse(options: &Value) -> Result<Option<Self>, OptionError> {
        let flag = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => Some(number.as_f64() != Some(0.0)),
            _ => None,
        };
        let Some(option) = options.get("pty") else { return Ok(None) };
        let Some(table) = option.as_object() else {
            let wanted = flag(option).ok_or_else(|| OptionError::form("pty", option, "no flag"))?;
            let plain = Self { interactive: false, rows: ROWS, columns: COLUMNS };
            return Ok(wanted.then_some(plain));
        };
        let size = |key: &str, default: u16| match table.get(key) {
            None => Ok(default),
            Some(value) => {
                value.as_u64().and_then(|number| u16::try_from(number).ok()).ok_or_else(|| {
                    OptionError::form(format!("pty.{key}"), value, "no number of characters")
                })
            }
        };
        let interactive = table.get("interactive").map(|value| {
            flag(value).ok_or_else(|| OptionError::form("pty.interactive", value, "no flag"))
        });
        let (rows, columns) = (size("rows", ROWS)?, size("columns", COLUMNS)?);
        let interactive = interactive.transpose()?.unwrap_or(false);
        Ok(Some(Self { interactive, rows, columns }))
    }
}

/// A terminal whose task runs.
pub(in crate::exec::shepherd) struct Terminal {
    pub(in crate::exec::shepherd) shepherd: OwnedFd,
    /// The work to copy between it and the pipes.
    pub(in crate::exec::shepherd) copying: AbortHandle,
}

impl Terminal {
    /// Sets its size. The system notifies the processes in it.
    pub(in crate::exec::shepherd) fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        set_size(&self.shepherd, rows, columns)
    }
}

fn set_size(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// A terminal: the task's side, and the shepherd's.
pub(super) struct Pty {
    pub(super) task: OwnedFd,
    shepherd: OwnedFd,
}

impl Pty {
    /// Opens a new terminal, which belongs to the job's user.
    pub(super) fn open(options: &PtyOptions, job_user: &JobUser) -> io::Result<Self> {
        let shepherd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        let shepherd = OpenFiles::of_this_process().apart(shepherd);
        grantpt(&shepherd)?;
        unlockpt(&shepherd)?;
        let name = ptsname(&shepherd, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let task = rustix::fs::open(name, flags, Mode::empty())?;
        if let Some(user) = job_user.other() {
            rustix::fs::fchown(&task, Some(user.uid()), None)?;
        }
        set_size(&task, options.rows, options.columns)?;
        Ok(Self { task, shepherd })
    }

    /// Copies between the shepherd's side and the pipes that a task without a terminal would have, until the last
    /// process has closed the terminal. Without `input` the terminal is at its end of file.
    pub(super) fn join(
        shepherd: OwnedFd,
        input: Option<PipeReader>,
        output: PipeWriter,
    ) -> io::Result<Terminal> {
        rustix::io::ioctl_fionbio(&shepherd, true)?;
        // A terminal is read and written like a pipe.
        let mut printed = Receiver::from_owned_fd_unchecked(shepherd.try_clone()?)?;
        let mut typed = Sender::from_owned_fd_unchecked(shepherd.try_clone()?)?;
        let mut output = Sender::from_owned_fd(OwnedFd::from(output))?;
        let input = input.map(|pipe| Receiver::from_owned_fd(OwnedFd::from(pipe))).transpose()?;
        let copying = tokio::spawn(async move {
            let typing = async {
                // An error on either side ends the input, but not the output.
                let _ = copy_input(input, &mut typed).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                // Ends with an error (EIO) when all processes have closed the terminal.
                _ = copy_output(&mut printed, &mut output) => {}
                () = typing => {}
            }
        });
        Ok(Terminal { shepherd, copying: copying.abort_handle() })
    }

    /// The two sides.
    pub(super) fn into_sides(self) -> (OwnedFd, OwnedFd) {
        (self.task, self.shepherd)
    }
}

/// Passes on what a task prints, to the last byte before the error with which a terminal ends. `tokio::io::copy` reads
/// while a write waits, and drops what it has when that read fails.
async fn copy_output(
    printed: &mut (impl AsyncRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut chunk = [0; CHUNK];
    loop {
        let size = printed.read(&mut chunk).await?;
        if size == 0 {
            return Ok(());
        }
        output.write_all(chunk.get(..size).unwrap_or_default()).await?;
    }
}

/// Types what comes from a pipe, and then the end of the input.
async fn copy_input(input: Option<Receiver>, terminal: &mut Sender) -> io::Result<()> {
    let mut chunk = [0; CHUNK];
    let mut line_begun = false;
    if let Some(mut input) = input {
        loop {
            let size = input.read(&mut chunk).await?;
            let read = chunk.get(..size).unwrap_or_default();
            let Some(last) = read.last() else { break };
            line_begun = *last != b'\n';
            terminal.write_all(read).await?;
        }
    }
    // In a line that has begun, the first such character only ends the line.
    let end = if line_begun { [END_OF_FILE; 2].as_slice() } else { &[END_OF_FILE] };
    terminal.write_all(end).await
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use rustix::io::Errno;
    use serde_json::json;
    use tokio::io::{ReadBuf, duplex};

    use super::*;

    /// A terminal that all processes have closed.
    struct Closed;

    impl AsyncRead for Closed {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(Errno::IO.into()))
        }
    }

    #[test]
    fn what_was_printed_before_the_end_of_a_terminal_is_passed_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let passed_on = runtime.block_on(async {
            // A pipe that is full before all is written.
            let (mut output, mut pipe) = duplex(4);
            let copying = async move {
                let mut printed = b"the last words".chain(Closed);
                copy_output(&mut printed, &mut output).await
            };
            let mut text = String::new();
            let (ended, read) = tokio::join!(copying, pipe.read_to_string(&mut text));
            assert_eq!(ended.unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
            read.map(|_| text).unwrap()
        });
        assert_eq!(passed_on, "the last words");
    }

    #[test]
    fn the_option_is_a_flag_or_a_table() {
        let read = |option: Value| PtyOptions::parse(&json!({ "pty": option }));
        let plain = PtyOptions { interactive: false, rows: ROWS, columns: COLUMNS };
        assert_eq!(PtyOptions::parse(&json!({})), Ok(None));
        assert_eq!(read(json!(1)), Ok(Some(plain.clone())));
        assert_eq!(read(json!(0)), Ok(None));
        assert_eq!(read(json!({"capture": 1})), Ok(Some(plain)));
        let typed = PtyOptions { interactive: true, rows: 50, columns: 132 };
        assert_eq!(read(json!({"interactive": 1, "rows": 50, "columns": 132})), Ok(Some(typed)));
        assert_eq!(read(json!("foo")).unwrap_err().to_string(), "pty: \"foo\" is no flag");
        let text = "pty.rows: 70000 is no number of characters";
        assert_eq!(read(json!({"rows": 70000})).unwrap_err().to_string(), text);
        assert!(read(json!({"interactive": "x"})).is_err());
    }
}
