//! The processes of `jobtap bench`. The program starts itself with a hidden first argument:
//!
//! - one process for each measurement, so that one doesn't leave memory or threads to the next;
//! - one for the manager that is measured, so that its time and memory are told apart from those of its clients;
//! - one that fills a store, so that the manager starts as it does after a reboot.
//!
//! Each ends when its standard input is closed, which also happens when its parent is killed, and at SIGINT and
//! SIGTERM. A manager ends its jobs and removes its state directory then. The directory in which all of them
//! lie is removed by the first process, when the others have ended.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::connection::Connection;
use super::cpu::ProcessTime;
use super::{BenchError, fill, measures};
use crate::daemon::config::{Source, setting};
use crate::daemon::resources::TestSize;
use crate::daemon::statedir::StateDir;
use crate::daemon::{Daemon, Options};
use crate::stderr;

/// The hidden first argument.
pub(crate) const ARGUMENT: &str = "__bench";

/// The second argument: what the process does.
const MEASURE: &str = "measure";
const MANAGER: &str = "manager";
const FILL: &str = "fill";

/// The running binary, even if its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// How long a manager may take to end; then it is killed.
const LONGEST_END: Duration = Duration::from_secs(20);

/// How often it is checked whether a process has ended.
const POLL: Duration = Duration::from_millis(5);

/// The exit code after SIGINT, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// The managers that this process has started and that have not ended.
static MANAGERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// What a manager is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ManagerSetup {
    /// Its configuration.
    pub(super) config: Value,
    /// How many inactive jobs are in its store.
    pub(super) inactive: u64,
    /// How many pending jobs are.
    pub(super) pending: u64,
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

fn itself(kind: &str) -> Command {
    let mut command = Command::new(OWN_BINARY);
    command.arg(ARGUMENT).arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs a process of one of the kinds. `arguments` follow [`ARGUMENT`].
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [MEASURE, name, jobs] => measure(name, jobs),
        [MANAGER, setup] => manager(setup),
        [FILL, directory, setup] => filled(directory, setup),
        _ => Err(BenchError::other(format!("usage: {ARGUMENT} {MEASURE}|{MANAGER}|{FILL} ..."))),
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
    let unknown = || BenchError::other(format!("there is no measurement {name} of {jobs} jobs"));
    let measurement = measures::find(name).ok_or_else(unknown)?;
    let jobs = jobs.parse().map_err(|_| unknown())?;
    end_with_parent()?;
    let found = (measurement.run)(jobs)?;
    print(&found)
}

/// Ends this process when it is asked to, after the managers that it has started.
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
            // The thread that started it may wait for it, too: then there is nothing to wait for here.
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
    /// Begins to wait: from now on no signal ends the process at once. Must be called within a runtime.
    fn new() -> Result<Self, BenchError> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let parent = Arc::new(Notify::new());
        let tell = Arc::clone(&parent);
        std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            // Nothing is written to it: it is readable when the other end is closed.
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
        let socket = statedir.path().join("local-0");
        let text = setup.config.to_string();
        let options = Options {
            source: Source::new(&[], vec![text.clone()])?,
            config: setting(&text)?,
            statedir,
            socket: socket.clone(),
            log_level: Level::Warning,
            test_size: TestSize::default(),
            given: None,
            dump: None,
            recovery: false,
            attributes: Arc::default(),
        };
        let begin = Instant::now();
        let daemon = Daemon::start(options)?;
        print(&Ready { socket, started: begin.elapsed().as_secs_f64() })?;
        tokio::select! {
            reason = daemon.failure() => return Err(BenchError::Other(reason)),
            () = asked.wait() => {}
        }
        daemon.finish_jobs().await;
        // Only the writing of an archive can fail, and none is written.
        let _ = daemon.shutdown().await;
        Ok(())
    })
}

async fn fill_with(statedir: &StateDir, setup: &ManagerSetup) -> Result<(), BenchError> {
    let mut command = itself(FILL);
    command.arg(statedir.path()).arg(written(setup)?);
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let _input = child.stdin.take();
    let status = child.wait().await?;
    if status.success() {
        Ok(())
    } else {
        Err(BenchError::other(format!("the store could not be filled: {status}")))
    }
}

fn filled(directory: &str, setup: &str) -> Result<(), BenchError> {
    let setup: ManagerSetup = read(setup)?;
    end_with_parent()?;
    fill::fill(Path::new(directory), &setup)
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
            // It has said why on standard error.
            let status = child.wait()?;
            return Err(BenchError::other(format!("the manager that is measured ended: {status}")));
        }
        Ok(Self { child, input, ready: read(&line)?, ended: AtomicBool::new(false) })
    }

    /// What it said when it was ready.
    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Opens a connection to it.
    pub(super) fn connect(&self) -> Result<Connection, BenchError> {
        Connection::open(&self.ready.socket)
    }

    /// The processor time that it has used.
    pub(super) fn cpu(&self) -> Result<ProcessTime, BenchError> {
        Ok(ProcessTime::of(self.child.id())?)
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
                return Err(BenchError::other(
                    "the manager that was measured didn't end; it is killed",
                ));
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
fn print(value: &impl Serialize) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    out.write_all(written(value)?.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn written(value: &impl Serialize) -> Result<String, BenchError> {
    serde_json::to_string(value).map_err(|error| BenchError::other(error.to_string()))
}

fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, BenchError> {
    serde_json::from_str(text).map_err(|error| BenchError::other(error.to_string()))
}
