//! `exec`: runs a command for each node, as administrators do to maintain nodes outside of jobs.
//!
//! Where all nodes of a manager are its own host, this process runs the commands itself, as the user who calls it and in
//! that user's environment. The manager only checks whether the user is the instance owner, and records the command. On
//! the nodes of an allocation, their own processes run it, as the instance owner.

mod input;
mod interrupts;
mod lines;
mod messages;
mod process;
mod remote;
mod targets;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use jobtap_core::job::{WaitStatus, signal_text};
use jobtap_core::resource::Idset;
use rustix::process::{Resource, Signal, getrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;

use self::interrupts::Interrupts;
use self::messages::{COMMAND, NOT_RUN, complain};
use self::process::{Ended, Order};
use self::remote::Connections;
use self::targets::{Permission, TargetArgs, Targets};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;

/// The number of open files per command: its streams, and one that reports its exit.
const PER_COMMAND: usize = 4;

/// The number of open files for everything else.
const REST: usize = 32;

/// How many signals may wait for a command. More are dropped: they come faster than they can be passed on.
const MOST_SIGNALS: usize = 16;

/// Options and arguments of `exec`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(in crate::cli) struct ExecArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// Working directory of the command
    #[arg(short = 'd', long, value_name = "PATH")]
    dir: Option<OsString>,
    /// Begin each line of output with the rank of its node
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Do not forward standard input
    #[arg(short = 'n', long)]
    noinput: bool,
    /// Print what is done, and how long it takes
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Print no exit codes
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Command to run
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command. The exit code is the highest of all nodes.
pub(in crate::cli) fn run(args: ExecArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Compiled, async |client| exec(&client, args).await)
}

async fn exec(client: &Client, args: ExecArgs) -> Result<u8, CliError> {
    let targets = args.targets.find(client).await?;
    if let Permission::Refused(text) = targets.permission(client, &args.command).await? {
        let program = process::program(&args.command);
        for rank in targets.ranks().iter() {
            complain(&format!("rank {rank}: {program}: {text}"));
        }
        return Ok(NOT_RUN);
    }
    let remote = match targets.are_hosts() {
        true => {
            let (responses, requests) = (client.clone(), client.another().await?);
            Some(Connections { responses, requests })
        }
        false => {
            check_open_files(targets.ranks().len())?;
            None
        }
    };
    let progress = Progress { since: Instant::now(), verbose: args.verbose };
    let (ranks, program) = (targets.ranks(), process::program(&args.command));
    progress.say(&format!("Starting {program} on {}", ranks.brackets()));
    let ended = run_all(targets, remote.as_ref(), &args, &progress).await?;
    let code = ended.iter().map(Ended::code).max().unwrap_or_default();
    progress.say(&format!("{} tasks complete with code {code}", ended.len()));
    if !args.quiet {
        summary(&ended).iter().for_each(|line| session::print_message(line));
    }
    Ok(code)
}

/// Runs the command for all nodes until the last one has ended.
async fn run_all(
    targets: Targets,
    remote: Option<&Connections>,
    args: &ExecArgs,
    progress: &Progress,
) -> Result<Vec<Ended>, CliError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupts = Interrupts::default();
    let (mut senders, mut signals, mut running) = (Vec::new(), Vec::new(), JoinSet::new());
    let order = Arc::new(Order {
        words: args.command.clone(),
        directory: args.dir.clone(),
        label: args.label_io,
    });
    for node in targets.into_nodes() {
        let input = (!args.noinput).then(input::channel);
        let (sender, input) = input.unzip();
        senders.extend(sender);
        let (signal, signaled) = channel(MOST_SIGNALS);
        signals.push(signal);
        let order = Arc::clone(&order);
        match remote.cloned() {
            Some(manager) => {
                running.spawn(remote::run(manager, order, node, input, signaled));
            }
            None => drop(running.spawn(process::run(order, node, input, signaled))),
        }
    }
    progress.say("Sent all requests");
    // The thread may wait for a terminal. Nobody joins it: it ends with this process.
    std::thread::Builder::new().spawn(|| input::broadcast(senders))?;
    let mut ended = Vec::with_capacity(running.len());
    loop {
        tokio::select! {
            one = running.join_next() => match one {
                Some(one) => ended.push(one.map_err(CliError::failure)??),
                None => break,
            },
            _ = terminate.recv() => to_all(&signals, Signal::TERM),
            _ = interrupt.recv() => match interrupts.next(Instant::now()) {
                interrupts::Next::Pass => to_all(&signals, Signal::INT),
                interrupts::Next::Warn(text) => session::print_message(&text),
                // What still runs is killed when its task is dropped.
                interrupts::Next::Leave => return Err(CliError { text: String::new(), code: 130 }),
            },
        }
    }
    Ok(ended)
}

/// Returns an error if the commands need more open files than this process may have.
fn check_open_files(commands: usize) -> Result<(), CliError> {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    match limit.filter(|limit| commands * PER_COMMAND + REST > *limit) {
        None => Ok(()),
        Some(limit) => Err(CliError::failure(format!(
            "{commands} commands at once need more open files than the limit of {limit}: raise it with `ulimit -n`, or \
             choose fewer with --rank"
        ))),
    }
}

/// A line for each exit status with which commands failed.
fn summary(ended: &[Ended]) -> Vec<String> {
    let mut groups: BTreeMap<i32, Idset> = BTreeMap::new();
    for one in ended {
        if let Ended::Exited { rank, status } = one
            && status.0 != 0
        {
            groups.entry(status.0).or_default().insert(*rank);
        }
    }
    let line = |(status, ranks): (i32, Idset)| {
        let how = match (WaitStatus(status).signaled(), WaitStatus(status).exited()) {
            (Some(signal), _) => signal_text(signal),
            (None, code) => format!("Exit {}", code.unwrap_or_default()),
        };
        format!("{}: {how}", ranks.brackets())
    };
    groups.into_iter().map(line).collect()
}

/// What `--verbose` prints.
struct Progress {
    since: Instant,
    verbose: bool,
}

impl Progress {
    fn say(&self, text: &str) {
        if self.verbose {
            let passed = self.since.elapsed().as_secs_f64() * 1000.0;
            session::print_message(&format!("{passed:.6}ms: {text}"));
        }
    }
}

/// Passes a signal on to all commands.
fn to_all(commands: &[Sender<Signal>], signal: Signal) {
    for command in commands {
        // Fails if the command has ended, or doesn't take signals fast enough.
        let _ = command.try_send(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(rank: u32, status: i32) -> Ended {
        Ended::Exited { rank, status: WaitStatus(status) }
    }

    #[test]
    fn equal_ends_are_told_together() {
        let ended = [exited(3, 9), exited(0, 0), exited(1, 3 << 8), exited(2, 3 << 8)];
        assert_eq!(summary(&ended), ["3: Killed", "[1-2]: Exit 3"]);
        assert_eq!(ended.iter().map(Ended::code).max(), Some(137));
        assert_eq!(Ended::Failed { code: 127 }.code(), 127);
    }
}
