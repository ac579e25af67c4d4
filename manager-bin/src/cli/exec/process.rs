//! One command on this host, run for one node.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use jobtap_core::job::WaitStatus;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::mpsc::Receiver;

use super::input;
use super::lines::Lines;
use super::messages::{NOT_RUN, complain};
use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::process_group::{ProcessGroup, can_enter};

/// The exit code of a command that is not found.
pub(super) const NOT_FOUND: u8 = 127;

/// The directory of a command whose own directory doesn't exist.
const FALLBACK: &str = "/tmp";

/// How many bytes of output are read at once.
const CHUNK: usize = 64 << 10;

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

impl Node {
    /// What a command learns about its node.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let host = self.host.iter().map(|host| ("HOSTNAME".to_owned(), host.clone()));
        [("JOBTAP_RANK".to_owned(), self.rank.to_string())].into_iter().chain(host)
    }
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has run.
    Exited { rank: u32, status: WaitStatus },
    /// It was not started, or its node is lost.
    Failed { code: u8 },
}

impl Ended {
    /// The exit code, as a shell would report it.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Exited { status, .. } => status.exit_code().unwrap_or(1),
            Self::Failed { code } => *code,
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
    mut signals: Receiver<Signal>,
) -> Result<Ended, CliError> {
    let rank = node.rank;
    let mut group = match spawn(&order, &node, input.is_some()) {
        Ok(group) => group,
        Err(error) => {
            let (program, text) = (program(&order.words), system_text(&error));
            complain(&format!("rank {rank}: {program}: error launching process: {text}"));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(Ended::Failed { code: if missing { NOT_FOUND } else { NOT_RUN } });
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
            copy(stdout, Lines::new(label.as_deref(), io::stdout)),
            copy(stderr, Lines::new(label.as_deref(), io::stderr)),
        )
    };
    tokio::select! {
        ended = group.run(copied, &mut signals) => {
            let (status, copied) = ended?;
            copied?;
            Ok(Ended::Exited { rank, status: WaitStatus(status.into_raw()) })
        }
        // Input that the command doesn't read must not keep it from ending, so this never resolves.
        never = fed => match never {},
    }
}

fn spawn(order: &Order, node: &Node, has_input: bool) -> io::Result<ProcessGroup> {
    let Some((program, arguments)) = order.words.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(node.variables());
    if let Some(directory) = &order.directory {
        command.current_dir(usable(directory));
    }
    command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    ProcessGroup::spawn(&mut command)
}

/// The directory, or `FALLBACK` if no process can have it.
fn usable(directory: &OsStr) -> &OsStr {
    match can_enter(Path::new(directory)) {
        Ok(()) => directory,
        Err(error) => {
            elsewhere(directory, &system_text(&error), FALLBACK);
            OsStr::new(FALLBACK)
        }
    }
}

/// Tells the user that a command runs in another directory than its own.
pub(super) fn elsewhere(named: &OsStr, reason: &str, directory: &str) {
    let named = Path::new(named).display();
    session::print_message(&format!(
        "Could not change dir to {named}: {reason}. Going to {directory} instead"
    ));
}

/// Prints a stream to its end.
async fn copy<W: io::Write>(
    stream: Option<impl AsyncRead + Unpin>,
    mut lines: Lines<W>,
) -> Result<(), CliError> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut read = Vec::with_capacity(CHUNK);
    while stream.read_buf(&mut read).await? > 0 {
        lines.print(&read)?;
        read.clear();
    }
    lines.end()
}
