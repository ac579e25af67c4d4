//! One command on a node of an allocation: the node runs it, and the manager passes on what it reads and prints.

use std::future::pending;
use std::io;
use std::sync::Arc;

use jobtap_core::job::WaitStatus;
use rustix::process::Signal;
use tokio::sync::mpsc::Receiver;

use super::lines::Lines;
use super::messages::{NOT_RUN, complain};
use super::process::{Ended, NOT_FOUND, Node, Order, elsewhere, program};
use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};
use crate::exec::nodes::{CREDIT, Command, Data, FromCommand, Output};
use crate::rpc::errno::{EHOSTUNREACH, ENOENT, strerror};
use crate::rpc::services::exec::{Exec, Happened, Kill, Write};

/// The exit code of a command whose node can't be reached, as in Flux.
const NO_HOST: u8 = 68;

/// The largest part of the input.
const LARGEST: usize = super::input::CHUNK;

/// The connections to the manager. Two, since a response that waits to be taken must not hold up those to requests.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) responses: Client,
    pub(super) requests: Client,
}

/// Runs the command until it has ended.
///
/// # Errors
/// The command's output can't be written, or the command isn't UTF-8. The command is killed then.
pub(super) async fn run(
    manager: Connections,
    order: Arc<Order>,
    node: Node,
    mut input: Option<Receiver<Arc<[u8]>>>,
    mut signals: Receiver<Signal>,
) -> Result<Ended, CliError> {
    let rank = node.rank;
    let program = program(&order.words);
    let command = command(&order, &node, input.is_some())?;
    let mut responses = manager.responses.stream(Exec { rank, command }).await?;
    let label = order.label.then(|| format!("{rank}: "));
    let mut stdout = Lines::new(label.as_deref(), io::stdout);
    let mut stderr = Lines::new(label.as_deref(), io::stderr);
    let mut running: Option<u64> = None;
    let mut credit = CREDIT;
    loop {
        tokio::select! {
            response = responses.next() => {
                let Happened { key, happened } = match response {
                    Some(Ok(happened)) => happened,
                    Some(Err(error)) => {
                        stdout.end()?;
                        stderr.end()?;
                        return Ok(failed(rank, &program, running, &error));
                    }
                    None => {
                        stdout.end()?;
                        stderr.end()?;
                        let error = RpcError::new(EHOSTUNREACH, "");
                        return Ok(failed(rank, &program, running, &error));
                    }
                };
                match happened {
                    FromCommand::Started { .. } => running = Some(key),
                    FromCommand::Elsewhere { errno, directory } => {
                        let named = order.directory.as_deref().unwrap_or(".".as_ref());
                        elsewhere(named, &strerror(errno), &directory);
                    }
                    FromCommand::Output { stream: Output::Stdout, data } => {
                        stdout.print(&data.decode()?)?;
                    }
                    FromCommand::Output { stream: Output::Stderr, data } => {
                        stderr.print(&data.decode()?)?;
                    }
                    FromCommand::AddCredit { bytes } => credit = (credit + bytes).min(CREDIT),
                    FromCommand::Finished { status } => {
                        stdout.end()?;
                        stderr.end()?;
                        return Ok(Ended::Exited { rank, status: WaitStatus(status) });
                    }
                    FromCommand::Failed { errno, reason } => {
                        stdout.end()?;
                        stderr.end()?;
                        let error = RpcError::new(errno, reason);
                        return Ok(failed(rank, &program, running, &error));
                    }
                }
            }
            chunk = next_chunk(&mut input), if running.is_some() && credit >= LARGEST => {
                let eof = chunk.is_none();
                credit -= chunk.as_ref().map_or(0, |chunk| chunk.len());
                let data = chunk.as_deref().map(Data::new);
                // Refused if the command has ended, which the next response tells.
                let _ = manager.requests.call(Write { key: running.unwrap_or_default(), data, eof }).await;
            }
            Some(signal) = signals.recv(), if running.is_some() => {
                let (key, signum) = (running.unwrap_or_default(), signal.as_raw());
                let _ = manager.requests.call(Kill { key, signum }).await;
            }
        }
    }
}

/// The next part of the input; `None` at its end, after which nothing comes.
async fn next_chunk(input: &mut Option<Receiver<Arc<[u8]>>>) -> Option<Arc<[u8]>> {
    match input {
        Some(open) => {
            let chunk = open.recv().await;
            if chunk.is_none() {
                *input = None;
            }
            chunk
        }
        None => pending().await,
    }
}

/// The command, with this process's environment.
fn command(order: &Order, node: &Node, input: bool) -> Result<Command, CliError> {
    let no_text =
        |what: &str| CliError::failure(format!("{what} must be UTF-8 to run on another host"));
    let words = order.words.iter().map(|word| word.to_str().map(str::to_owned));
    let cmdline: Option<Vec<String>> = words.collect();
    let directory = match &order.directory {
        // As on this host, relative to the directory of this process.
        Some(directory) => std::path::absolute(directory)?.into_os_string(),
        None => std::env::current_dir()?.into_os_string(),
    };
    let cwd = directory.to_str().ok_or_else(|| no_text("the directory"))?.to_owned();
    // What isn't text can't be sent.
    let env = std::env::vars_os();
    let env = env.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let mut env: std::collections::BTreeMap<String, String> = env.collect();
    env.extend(node.variables());
    Ok(Command { cmdline: cmdline.ok_or_else(|| no_text("the command"))?, env, cwd, input })
}

/// Reports that a command could not be run to its end.
fn failed(rank: u32, program: &str, running: Option<u64>, error: &RpcError) -> Ended {
    let what = if running.is_some() { "" } else { "error launching process: " };
    complain(&format!("rank {rank}: {program}: {what}{error}"));
    let code = match error.errno {
        ENOENT => NOT_FOUND,
        EHOSTUNREACH => NO_HOST,
        _ => NOT_RUN,
    };
    Ended::Failed { code }
}
