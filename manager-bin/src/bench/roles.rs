//! What the processes of `jobtap bench` do: measure, be a manager, fill a store, or play nodes.

use std::ffi::OsString;
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use jobtap_core::resource::Idset;
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::error::BenchError;
use super::process::{
    ARGUMENT, FILL, INTERRUPTED, LONGEST_END, MANAGER, MANAGERS, MEASURE, ManagerSetup, PLAY, POLL,
    Ready, itself, print, read, written,
};
use super::{fill, measures};
use crate::daemon::config::{Source, setting};
use crate::daemon::resources::TestSize;
use crate::daemon::statedir::StateDir;
use crate::daemon::{Daemon, Options};
use crate::exec::nodes::{Identity, NodeInfo, Nodes};
use crate::{exec, stderr};

/// Runs a process of one of the kinds. `arguments` follow [`ARGUMENT`].
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [MEASURE, name, jobs] => measure(name, jobs),
        [MANAGER, setup] => manager(setup),
        [FILL, directory, setup] => filled(directory, setup),
        [PLAY] => play(),
        _ => Err(BenchError::Usage(format!("{ARGUMENT} {MEASURE}|{MANAGER}|{FILL}|{PLAY} ..."))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stderr::line(&error.to_string());
            stderr::flush();
            ExitCode::FAILURE
        }
    }
}

/// Makes one measurement and prints it.
fn measure(name: &str, jobs: &str) -> Result<(), BenchError> {
    let unknown = || BenchError::NoMeasurement { name: name.to_owned(), jobs: jobs.to_owned() };
    let measurement = measures::find(name).ok_or_else(unknown)?;
    let jobs = jobs.parse().map_err(|_| unknown())?;
    end_with_parent()?;
    let found = (measurement.run)(jobs)?;
    print(&found)
}

/// Makes this process exit when it is asked to, after the managers that it has started.
fn end_with_parent() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut asked = {
        let _context = runtime.enter();
        Asked::new()?
    };
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        runtime.block_on(asked.wait());
        let managers = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for pid in &managers {
            let _ = kill_process(*pid, Signal::TERM);
        }
        let begin = Instant::now();
        for pid in managers {
            // The thread that started it may wait for it, too; if that reaps it first, there is nothing left
            // to wait for here.
            while matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
                if begin.elapsed() > LONGEST_END {
                    let _ = kill_process(pid, Signal::KILL);
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        std::process::exit(INTERRUPTED.into());
    })?;
    Ok(())
}

/// Waits until this process is asked to end.
struct Asked {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    parent: Arc<Notify>,
}

impl Asked {
    /// Begins to wait: from now on, SIGINT and SIGTERM don't end the process at once. Must be called within a
    /// runtime.
    fn new() -> Result<Self, BenchError> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let parent = Arc::new(Notify::new());
        let tell = Arc::clone(&parent);
        std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            // Nothing is ever written to standard input: a read returns when the other end is closed.
            let _ = std::io::stdin().lock().read(&mut [0]);
            tell.notify_one();
        })?;
        Ok(Self { interrupt, terminate, parent })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = self.parent.notified() => {}
        }
    }
}

/// Runs a manager in a temporary state directory.
fn manager(setup: &str) -> Result<(), BenchError> {
    let setup: ManagerSetup = read(setup)?;
    let statedir = StateDir::temporary()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut asked = Asked::new()?;
        if setup.inactive + setup.pending > 0 {
            tokio::select! {
                filled = fill_with(&statedir, &setup) => filled?,
                () = asked.wait() => return Ok(()),
            }
        }
        let played = Played::start(setup.played)?;
        let socket = statedir.path().join("local-0");
        let text = setup.config.to_string();
        let options = Options {
            source: Source::new(&[], vec![text.clone()])?,
            config: setting(&text)?,
            statedir,
            socket: socket.clone(),
            log_level: Level::Warning,
            test_size: TestSize::default(),
            end_of_nodes: 0.0,
            nodes: played.nodes(),
            given: None,
            dump: None,
            recovery: false,
            attributes: Arc::default(),
        };
        let begin = Instant::now();
        let daemon = Daemon::start(options)?;
        print(&Ready { socket, started: begin.elapsed().as_secs_f64() })?;
        tokio::select! {
            reason = daemon.failure() => return Err(BenchError::Manager(reason)),
            () = asked.wait() => {}
        }
        daemon.finish_jobs().await;
        // Only the writing of an archive can fail, and none is written.
        let _ = daemon.shutdown(true).await;
        Ok(())
    })
}

/// The process that plays nodes, and what the manager knows of these.
enum Played {
    None,
    Nodes { nodes: Arc<Nodes>, _child: Child },
}

/// What the process that plays nodes reads.
#[derive(Serialize, Deserialize)]
struct Play {
    address: SocketAddr,
    identity: String,
    nodes: Vec<NodeInfo>,
}

/// How long nodes may take to join, and may be away.
const PATIENCE: Duration = Duration::from_secs(120);

fn played_node(rank: u32) -> NodeInfo {
    // Both ends are this program.
    let (host, program) = (format!("node{rank}"), "bench".to_owned());
    NodeInfo { rank, host, cores: Idset::from(0..=63), gpus: Idset::new(), program, uri: None }
}

impl Played {
    fn start(count: u32) -> Result<Self, BenchError> {
        if count == 0 {
            return Ok(Self::None);
        }
        let (listener, identity) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, Identity::new()?);
        let nodes = (1..=count).map(played_node).collect();
        let (address, secret) = (listener.local_addr()?, identity.encode());
        let mut child = itself(PLAY).spawn()?;
        // The identity is on no command line. The process ends with its input.
        if let Some(input) = &mut child.stdin {
            let play = written(&Play { address, identity: secret, nodes })?;
            input.write_all(format!("{play}\n").as_bytes())?;
        }
        let nodes = Nodes {
            listener,
            identity,
            size: count + 1,
            own: played_node(0),
            patience: PATIENCE,
            grace: PATIENCE,
            known: Mutex::default(),
            admission: None,
        };
        Ok(Self::Nodes { nodes: Arc::new(nodes), _child: child })
    }

    fn nodes(&self) -> Option<Arc<Nodes>> {
        match self {
            Self::None => None,
            Self::Nodes { nodes, .. } => Some(Arc::clone(nodes)),
        }
    }
}

/// Plays nodes until their instance ends.
fn play() -> Result<(), BenchError> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let Play { address, identity, nodes } = read(&line)?;
    let identity = Identity::decode(&identity)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut asked = Asked::new()?;
        tokio::select! {
            ended = exec::nodes::play(address, &identity, nodes) => Ok(ended?),
            () = asked.wait() => Ok(()),
        }
    })
}

async fn fill_with(statedir: &StateDir, setup: &ManagerSetup) -> Result<(), BenchError> {
    let mut command = itself(FILL);
    command.arg(statedir.path()).arg(written(setup)?);
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let _input = child.stdin.take();
    let status = child.wait().await?;
    if status.success() { Ok(()) } else { Err(BenchError::NotFilled(status)) }
}

fn filled(directory: &str, setup: &str) -> Result<(), BenchError> {
    let setup: ManagerSetup = read(setup)?;
    end_with_parent()?;
    fill::fill(Path::new(directory), &setup)
}
