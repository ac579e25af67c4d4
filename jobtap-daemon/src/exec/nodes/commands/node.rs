//! The node's side: it runs the command.

use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::sync::mpsc::{channel, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{CREDIT, Command, Data, FromCommand, Output, ToCommand, next};
use crate::exec::nodes::dial::Manager;
use crate::exec::nodes::wire::{FromNode, VERSION, node_line};
use crate::exec::signals::to_processes;
use crate::limited;
use crate::open_files::OpenFiles;
use crate::process_group::{ProcessGroup, can_enter};

/// How long the connection to the manager may take.
const CONNECTING: Duration = Duration::from_secs(30);

/// The maximum number of bytes that are read from a command at once.
const CHUNK: usize = 64 << 10;

/// How many messages may wait for the channel. More output stays with the command.
const MOST_WAITING: usize = 8;

/// How many signals may wait. More are dropped: they come faster than they can be passed on.
const MOST_SIGNALS: usize = 64;

/// The directory of a command whose own can't be used.
const FALLBACK: &str = "/tmp";

/// Connects to the manager for the command with this number, and runs it.
pub(in crate::exec::nodes) async fn answer(manager: &Manager, number: u64) {
    let connected = timeout(CONNECTING, async {
        let mut stream = manager.connect().await?;
        stream.write_all(&node_line(&FromNode::Command { version: VERSION, number })).await?;
        io::Result::Ok(stream)
    });
    // If this fails, the manager gives the node up in time and tells the client.
    if let Ok(Ok(stream)) = connected.await {
        serve(stream).await;
    }
}

/// Runs the command of a channel until it has ended, or the channel has.
pub(in crate::exec::nodes) async fn serve(stream: impl AsyncRead + AsyncWrite) {
    let (read, write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let Ok(Some(ToCommand::Start(command))) = next(&mut read).await else { return };
    let (said, to_say) = channel(MOST_WAITING);
    let running = async {
        run(command, read, said).await;
        Ok(())
    };
    // When the channel breaks, `running` is dropped, which kills the command.
    let _ = tokio::try_join!(running, write_all(write, to_say));
}

async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut to_say: Receiver<FromCommand>,
) -> io::Result<()> {
    while let Some(message) = to_say.recv().await {
        write.write_all(&node_line(&message)).await?;
        write.flush().await?;
    }
    write.shutdown().await
}

async fn run(
    command: Command,
    mut read: BufReader<impl AsyncRead + Unpin>,
    said: Sender<FromCommand>,
) {
    // The directory can be on a file server that hangs, which must not hold up the rest of this process.
    let started = spawn_blocking(move || {
        let entered = can_enter(command.cwd.as_ref());
        let directory = if entered.is_ok() { command.cwd.as_str() } else { FALLBACK };
        (spawn(&command, directory), entered)
    });
    let (started, entered) = match started.await {
        Ok(started) => started,
        Err(panicked) => (Err(io::Error::other(panicked)), Ok(())),
    };
    if let Err(error) = entered {
        let directory = FALLBACK.to_owned();
        let _ = said.send(FromCommand::Elsewhere { errno: number(&error), directory }).await;
    }
    let mut group = match started {
        Ok(group) => group,
        Err(error) => {
            let _ = said.send(failed(&error)).await;
            return;
        }
    };
    let pid = group.child.id().unwrap_or_default();
    let _ = said.send(FromCommand::Started { pid }).await;
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let stdin = group.child.stdin.take();
    // Bounded by `CREDIT`, which `obey` enforces with `waiting`.
    let (input, chunks) = unbounded_channel();
    let (signals, mut to_signal) = channel(MOST_SIGNALS);
    let waiting = AtomicUsize::new(0);
    let feeding = async {
        feed(stdin, chunks, &waiting, &said).await;
        // Input that the command doesn't read must not keep it from ending.
        pending::<()>().await;
    };
    let ending = async {
        let copied = async {
            tokio::join!(copy(stdout, Output::Stdout, &said), copy(stderr, Output::Stderr, &said))
        };
        match group.run(copied, &mut to_signal).await {
            Ok((status, _)) => FromCommand::Finished { status: status.into_raw() },
            Err(error) => failed(&error),
        }
    };
    tokio::select! {
        ended = ending => drop(said.send(ended).await),
        () = feeding => {}
        // The client has left, so the command ends.
        () = obey(&mut read, input, signals, &waiting) => {}
    }
}

fn spawn(command: &Command, directory: &str) -> io::Result<ProcessGroup> {
    let Some((program, arguments)) = command.cmdline.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let program = limited::Program {
        name: program.as_ref(),
        directory: Some(directory.as_ref()),
        path: command.env.get("PATH").map(OsStr::new),
    };
    // This process has raised its own limit of open files, which the command must not inherit.
    let limit = OpenFiles::of_this_process().to_lower();
    let mut process = tokio::process::Command::from(limited::command(&program, limit)?);
    process.args(arguments).current_dir(directory).env_clear().envs(&command.env);
    process.stdin(if command.input { Stdio::piped() } else { Stdio::null() });
    process.stdout(Stdio::piped()).stderr(Stdio::piped());
    ProcessGroup::spawn(&mut process)
}

/// Takes what the client sends, until it leaves or sends more input than there is room for.
async fn obey(
    read: &mut BufReader<impl AsyncRead + Unpin>,
    input: UnboundedSender<Vec<u8>>,
    signals: Sender<Signal>,
    waiting: &AtomicUsize,
) {
    let mut input = Some(input);
    while let Ok(Some(message)) = next(read).await {
        match message {
            ToCommand::Input(data) => {
                let Ok(bytes) = data.decode() else { return };
                if waiting.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > CREDIT {
                    return;
                }
                if let Some(input) = &input {
                    let _ = input.send(bytes);
                }
            }
            ToCommand::EndOfInput => input = None,
            ToCommand::Signal(number) => {
                let number = jobtap_core::job::Signal::from_number(number.into());
                if let Some(signal) = number.and_then(to_processes) {
                    let _ = signals.try_send(signal);
                }
            }
            ToCommand::Start(_) => return,
        }
    }
}

/// Writes the input to the command. Once the command closes its input, the rest is discarded, so that the client isn't
/// held up.
async fn feed(
    mut pipe: Option<ChildStdin>,
    mut chunks: UnboundedReceiver<Vec<u8>>,
    waiting: &AtomicUsize,
    said: &Sender<FromCommand>,
) {
    while let Some(chunk) = chunks.recv().await {
        if let Some(open) = &mut pipe
            && open.write_all(&chunk).await.is_err()
        {
            pipe = None;
        }
        waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
        if said.send(FromCommand::AddCredit { bytes: chunk.len() }).await.is_err() {
            return;
        }
    }
}

/// Passes on what the command prints, until all processes have closed this output.
async fn copy(from: Option<impl AsyncRead + Unpin>, stream: Output, said: &Sender<FromCommand>) {
    let Some(mut from) = from else { return };
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        bytes.clear();
        match (&mut from).take(CHUNK as u64).read_buf(&mut bytes).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let data = Data::new(&bytes);
        if said.send(FromCommand::Output { stream, data }).await.is_err() {
            return;
        }
    }
}

fn failed(error: &io::Error) -> FromCommand {
    FromCommand::Failed { errno: number(error), reason: String::new() }
}

/// The system's number of an error.
fn number(error: &io::Error) -> i32 {
    let of_kind = match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        _ => Errno::IO,
    };
    error.raw_os_error().unwrap_or_else(|| of_kind.raw_os_error())
}
