//! The processes of `jobtap bench`, from the side of those that start them. The program starts itself with a
//! hidden first argument:
//!
//! - one process for each measurement, so that one doesn't leave memory or threads to the next;
//! - one for the manager that is measured, so that its time and memory can be told apart from those of its
//!   clients;
//! - one that fills a store, so that the manager starts as it does after a reboot;
//! - one that plays the nodes of an allocation.
//!
//! Each exits at SIGINT and SIGTERM, and when its standard input is closed, which also happens when its
//! parent is killed. A manager then ends its jobs and removes its state directory. The first process removes
//! the directory that contains all of these when the others have exited.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::connection::Connection;
use super::cpu::ProcessTime;
use super::error::BenchError;

/// The hidden first argument.
pub(crate) const ARGUMENT: &str = "__bench";

/// The second argument: what the process does.
pub(super) const MEASURE: &str = "measure";
pub(super) const MANAGER: &str = "manager";
pub(super) const FILL: &str = "fill";
pub(super) const PLAY: &str = "play";

/// The running binary, even if its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// How long a manager may take to exit before it is killed.
pub(super) const LONGEST_END: Duration = Duration::from_secs(20);

/// The interval between checks whether a process has exited.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// The exit code after SIGINT, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// The managers that this process has started and that have not ended.
pub(super) static MANAGERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// What a manager is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ManagerSetup {
    /// Its configuration.
    pub(super) config: Value,
    /// How many inactive jobs are in its store.
    pub(super) inactive: u64,
    /// How many pending jobs are in its store.
    pub(super) pending: u64,
    /// How many nodes beside its own are played by another process.
    pub(super) played: u32,
}

impl ManagerSetup {
    /// With this configuration, an empty store and no other node.
    pub(super) fn with(config: Value) -> Self {
        Self { config, inactive: 0, pending: 0, played: 0 }
    }
}

/// What a manager prints when it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Its socket.
    pub(super) socket: PathBuf,
    /// The seconds that its start took.
    pub(super) started: f64,
}

/// The command of a process that measures.
pub(crate) fn measuring(name: &str, jobs: u64, temporary: &Path) -> Command {
    let mut command = itself(MEASURE);
    command.arg(name).arg(jobs.to_string()).env("TMPDIR", temporary);
    command
}

/// A command that starts this program as a process of this kind.
pub(super) fn itself(kind: &str) -> Command {
    let mut command = Command::new(OWN_BINARY);
    command.arg(ARGUMENT).arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A manager in a process of its own.
pub(super) struct Manager {
    child: Child,
    input: Option<ChildStdin>,
    ready: Ready,
    ended: AtomicBool,
}

impl Manager {
    /// Starts a manager and waits until it is ready.
    pub(super) fn start(setup: &ManagerSetup) -> Result<Self, BenchError> {
        let mut child = itself(MANAGER).arg(written(setup)?).spawn()?;
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            MANAGERS.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        }
        let input = child.stdin.take();
        let output = child.stdout.take();
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.is_empty() {
            // It has written the reason to standard error.
            let status = child.wait()?;
            return Err(BenchError::NotReady(status));
        }
        Ok(Self { child, input, ready: read(&line)?, ended: AtomicBool::new(false) })
    }

    /// What it printed when it was ready.
    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Opens a connection to it.
    pub(super) fn connect(&self) -> Result<Connection, BenchError> {
        Connection::open(&self.ready.socket)
    }

    /// The processor time that it has used.
    pub(super) fn cpu(&self) -> Result<ProcessTime, BenchError> {
        Ok(ProcessTime::read(self.child.id())?)
    }

    /// Its resident memory in bytes.
    pub(super) fn resident(&self) -> Result<u64, BenchError> {
        Ok(super::resident_of(&self.child.id().to_string())?)
    }

    /// Ends it and waits until it has removed its state directory.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), BenchError> {
        if self.ended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        drop(self.input.take());
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > LONGEST_END {
                self.child.kill()?;
                self.child.wait()?;
                return Err(BenchError::NoEnd);
            }
            std::thread::sleep(POLL);
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let mut managers = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner);
        managers.retain(|known| Some(*known) != pid);
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // After an error, which is reported already.
        let _ = self.stop();
    }
}

/// Writes a line to standard output, for the process that has started this one.
pub(super) fn print(value: &impl Serialize) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    out.write_all(written(value)?.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

pub(super) fn written(value: &impl Serialize) -> Result<String, BenchError> {
    Ok(serde_json::to_string(value)?)
}

pub(super) fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, BenchError> {
    Ok(serde_json::from_str(text)?)
}
