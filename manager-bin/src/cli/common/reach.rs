//! The way to a manager that runs as a job on another host of an allocation, where its socket is. This process makes a
//! socket that stands for it: each connection is passed on by a command on that node, as one of `ssh` would do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jobtap_core::resource::Idset;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::hosts::are_hosts;
use super::message::CliError;
use super::session;
use crate::client::Client;
use crate::exec::nodes::{CREDIT, Command, Data, FromCommand, Output};
use crate::files::TemporaryDir;
use crate::rpc::services::exec::{Exec, Happened, Write};
use crate::rpc::uri;

/// The hidden first argument that makes this program pass on a connection.
pub(in crate::cli) const ARGUMENT: &str = "__reach";

/// The name of the socket that stands for another.
const SOCKET: &str = "local-0";

/// How many bytes are passed on at once.
const CHUNK: usize = 64 << 10;

/// The address by which this process reaches the manager at `uri`, a job of `outer` that runs on these ranks. It can be
/// used for as long as this process runs.
///
/// # Errors
/// The address isn't one, or the outer manager can't be asked about its nodes.
pub(in crate::cli) async fn address(
    outer: &Client,
    uri: &str,
    ranks: &str,
) -> Result<String, CliError> {
    let path = uri::to_path(uri).map_err(CliError::failure)?;
    // A file server may show the socket on all hosts, but only its own host connects to it.
    let is_here = StdUnixStream::connect(&path).is_ok();
    let first = ranks.parse::<Idset>().ok().and_then(|ranks| ranks.iter().next());
    let Some(rank) = first.filter(|_| !is_here) else { return Ok(uri::of_path(&path)) };
    match are_hosts(outer).await? {
        true => Ok(uri::of_path(&open(outer, rank, &path)?)),
        false => Ok(uri::of_path(&path)),
    }
}

/// Makes a socket for that at `path` on the node of `rank`, and returns its path.
fn open(outer: &Client, rank: u32, path: &Path) -> Result<PathBuf, CliError> {
    let own = std::env::current_exe()?;
    let words = [own.as_path(), ARGUMENT.as_ref(), path];
    let words: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let cmdline = words.ok_or_else(|| {
        CliError::failure("the program's path must be UTF-8 to be run on another host")
    })?;
    let (env, cwd) = (BTreeMap::new(), "/".to_owned());
    let command = Command { cmdline, env, cwd, input: true };
    let directory = TemporaryDir::new().map_err(CliError::failure)?;
    let socket = directory.path().join(SOCKET);
    let listener = UnixListener::bind(&socket)?;
    let outer = outer.clone();
    tokio::spawn(async move {
        // Removed at the end of this process.
        let _directory = directory;
        while let Ok((client, _)) = listener.accept().await {
            let (outer, command) = (outer.clone(), command.clone());
            tokio::spawn(async move {
                // A client whose way is broken sees that its connection ends.
                let _ = pass(&outer, Exec { rank, command }, client).await;
            });
        }
    });
    Ok(socket)
}

/// Passes on what goes through a connection, until one of both ends closes it.
async fn pass(outer: &Client, exec: Exec, client: UnixStream) -> Result<(), CliError> {
    // Two, since a response that waits to be taken must not hold up those to requests.
    let (responses, requests) = (outer.another().await?, outer.another().await?);
    let mut happenings = responses.stream(exec).await?;
    let (mut read, mut write) = client.into_split();
    let (mut running, mut credit) = (None, CREDIT);
    let mut chunk = vec![0; CHUNK];
    loop {
        tokio::select! {
            happened = happenings.next() => {
                let Some(Ok(Happened { key, happened })) = happened else { return Ok(()) };
                match happened {
                    FromCommand::Started { .. } => running = Some(key),
                    FromCommand::Output { stream: Output::Stdout, data } => {
                        write.write_all(&data.decode()?).await?;
                    }
                    FromCommand::Output { stream: Output::Stderr, data } => {
                        session::print_message(String::from_utf8_lossy(&data.decode()?).trim());
                    }
                    FromCommand::AddCredit { bytes } => credit = (credit + bytes).min(CREDIT),
                    FromCommand::Elsewhere { .. } => {}
                    FromCommand::Failed { reason, .. } => {
                        session::print_message(&reason);
                        return Ok(());
                    }
                    FromCommand::Finished { .. } => return Ok(()),
                }
            }
            count = read.read(&mut chunk), if running.is_some() && credit >= CHUNK => {
                let count = count?;
                credit -= count;
                let data = chunk.get(..count).filter(|read| !read.is_empty()).map(Data::new);
                let (key, eof) = (running.unwrap_or_default(), data.is_none());
                requests.call(Write { key, data, eof }).await?;
                if eof {
                    // What the client hasn't read, it doesn't want.
                    return Ok(());
                }
            }
        }
    }
}

/// Passes on the standard input to the socket that the arguments name, and what comes from there to the standard output.
pub(in crate::cli) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let path = PathBuf::from(arguments.next().unwrap_or_default());
    match pass_here(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            session::print_message(&format!("{}: {error}", path.display()));
            ExitCode::FAILURE
        }
    }
}

fn pass_here(path: &Path) -> io::Result<()> {
    let socket = StdUnixStream::connect(path)?;
    let to_manager = socket.try_clone()?;
    std::thread::spawn(move || {
        // When the client has left, this process is killed.
        let _ = copy(io::stdin().lock(), &to_manager);
        let _ = to_manager.shutdown(Shutdown::Write);
    });
    // Without a buffer.
    copy(&socket, File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Passes on what comes, until the end. Not by `std::io::copy`: while the system call that it makes waits for a socket, the
/// pipe that it fills is locked, and the node that reads from the pipe would hang.
fn copy(mut from: impl Read, mut to: impl io::Write) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(bytes.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
