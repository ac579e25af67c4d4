//! One command, run for one node.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use jobtap_core::job::WaitStatus;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::broadcast;
use tokio::sync::mpsc::Receiver;

use super::input;
use super::messages::{NOT_RUN, complain};
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;

/// The exit code of a command that is not found.
const NOT_FOUND: u8 = 127;

/// The longest line that is printed whole, so that commands don't write into each other's lines.
const LONGEST: usize = 1024 * 1024;

/// The directory of a command whose own directory doesn't exist.
const FALLBACK: &str = "/tmp";

/// The command to run.
pub(super) struct Order {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// Its directory, if it isn't that of this process.
    pub(super) directory: Option<OsString>,
    /// Whether lines begin with the rank.
    pub(super) label: bool,
}

/// The node for which the command is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) rank: u32,
    pub(super) host: Option<String>,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has run.
    Exited { rank: u32, status: WaitStatus },
    /// It was not started.
    NotStarted { code: u8 },
}

impl Ended {
    /// The exit code, as a shell would report it.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Exited { status, .. } => status.exit_code().unwrap_or(1),
            Self::NotStarted { code } => *code,
        }
    }
}

/// The name of the program, for messages.
pub(super) fn program(words: &[OsString]) -> String {
    words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Runs the command until it has exited and no process has its output open any more.
///
/// # Errors
/// The command's output can't be written. The command is killed then.
pub(super) async fn run(
    order: Arc<Order>,
    node: Node,
    input: Option<Receiver<Arc<[u8]>>>,
    signals: broadcast::Receiver<Signal>,
) -> Result<Ended, CliError> {
    let rank = node.rank;
    let mut group = match spawn(&order, &node, input.is_some()) {
        Ok(group) => group,
        Err(error) => {
            let (program, text) = (program(&order.words), system_text(&error));
            complain(&format!("rank {rank}: {program}: error launching process: {text}"));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(Ended::NotStarted { code: if missing { NOT_FOUND } else { NOT_RUN } });
        }
    };
    let label = order.label.then(|| format!("{rank}: "));
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let feed = group.child.stdin.take().zip(input).map(|(pipe, input)| input::feed(input, pipe));
    let fed = async move {
        if let Some(feed) = feed {
            feed.await;
        }
        std::future::pending::<Infallible>().await
    };
    let copied = async {
        tokio::try_join!(
            copy(stdout, label.as_deref(), io::stdout),
            copy(stderr, label.as_deref(), io::stderr),
        )
    };
    tokio::select! {
        ended = async { tokio::join!(group.wait(signals), copied) } => {
            let (status, copied) = ended;
            copied?;
            Ok(Ended::Exited { rank, status: WaitStatus(status?.into_raw()) })
        }
        // Input that the command doesn't read must not keep it from ending, so this never resolves.
        never = fed => match never {},
    }
}

fn spawn(order: &Order, node: &Node, has_input: bool) -> io::Result<Group> {
    let Some((program, arguments)) = order.words.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env("JOBTAP_RANK", node.rank.to_string());
    command.envs(node.host.as_ref().map(|host| ("HOSTNAME", host)));
    if let Some(directory) = &order.directory {
        command.current_dir(usable(directory));
    }
    command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
    // Its own process group, so that a signal reaches all its processes, and Ctrl-C at a terminal reaches only this
    // one.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(Group { child: command.spawn()? })
}

/// The directory, or `FALLBACK` if it can't be read.
fn usable(directory: &OsStr) -> &OsStr {
    match std::fs::read_dir(directory) {
        Ok(_) => directory,
        Err(error) => {
            let (name, text) = (Path::new(directory).display(), system_text(&error));
            session::print_message(&format!(
                "Could not change dir to {name}: {text}. Going to {FALLBACK} instead"
            ));
            OsStr::new(FALLBACK)
        }
    }
}

/// A command with the processes that it has started in its group. All are killed when this is dropped before it has
/// ended.
struct Group {
    child: Child,
}

impl Group {
    /// Waits for the end of the command, and passes signals on until then.
    async fn wait(
        &mut self,
        mut signals: broadcast::Receiver<Signal>,
    ) -> io::Result<std::process::ExitStatus> {
        loop {
            tokio::select! {
                status = self.child.wait() => return status,
                Ok(signal) = signals.recv() => self.signal(signal),
            }
        }
    }

    /// Sends a signal to the group. The id of a process that hasn't been waited for can't belong to another one.
    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        // Fails when all have exited, which is harmless.
        let _ = pid.map(|pid| kill_process_group(pid, signal));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Prints a stream to its end, by whole lines.
async fn copy<W: io::Write>(
    stream: Option<impl AsyncRead + Unpin>,
    label: Option<&str>,
    to: impl Fn() -> W,
) -> Result<(), CliError> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut held = Vec::new();
    let mut at_start = true;
    loop {
        let count = stream.read_buf(&mut held).await?;
        let whole = match held.iter().rposition(|byte| *byte == b'\n') {
            Some(last) if count > 0 && held.len() < LONGEST => last + 1,
            None if count > 0 && held.len() < LONGEST => continue,
            _ => held.len(),
        };
        let lines: Vec<u8> = held.drain(..whole).collect();
        session::write(&mut to(), &labelled(&lines, label, &mut at_start))?;
        if count == 0 {
            return Ok(());
        }
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
