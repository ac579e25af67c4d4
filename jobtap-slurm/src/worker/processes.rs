//! Processes of plugins, which run as the daemon's user and on its host.
//!
//! Each has a thread that waits for it. Nothing here may depend on SIGCHLD: Slurm's daemons have their own
//! signal handlers. They wait for their own children by id, so they don't reap these.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{OutputLine, Process, ProcessEnd, ProcessError, Stream};
use rustc_hash::FxHashMap;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::daemon::Daemon;

/// The number of bytes of an output that are kept.
const KEPT: usize = 1 << 20;

/// How long to wait for the rest of an output after the program has exited: a background process that it has
/// left behind may keep the pipe open.
const REST: Duration = Duration::from_millis(200);

/// The running processes.
pub(super) struct Processes {
    daemon: Arc<dyn Daemon>,
    running: Arc<Mutex<FxHashMap<ProcessKey, (PluginKey, Pid)>>>,
}

impl Processes {
    pub(super) fn new(daemon: Arc<dyn Daemon>) -> Self {
        Self { daemon, running: Arc::default() }
    }

    pub(super) fn carry_out(&self, plugin: PluginKey, command: ProcessCommand) {
        let Some(command) = self.daemon.run_process(command) else { return };
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                self.run(plugin, key, process, lines, answer);
            }
            ProcessCommand::Signal { key, signum } => {
                let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                if let (Some((_, pid)), Some(signal)) =
                    (running.get(&key), Signal::from_named_raw(signum))
                {
                    let _ = kill_process_group(*pid, signal);
                }
            }
            ProcessCommand::KillAll => self.kill_all(Some(plugin)),
        }
    }

    /// Kills the processes of a plugin, or all.
    pub(super) fn kill_all(&self, of: Option<PluginKey>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (plugin, pid) in running.values() {
            if of.is_none_or(|of| of == *plugin) {
                let _ = kill_process_group(*pid, Signal::KILL);
            }
        }
    }

    fn run(
        &self,
        plugin: PluginKey,
        key: ProcessKey,
        process: Process,
        lines: Option<LineSink>,
        mut answer: ProcessAnswer,
    ) {
        // Start the process on this thread, so that a signal that is sent next finds it.
        let mut child = match start(&process) {
            Ok(child) => child,
            Err(error) => {
                let Process { program, .. } = process;
                let (reason, kind) = (error.to_string(), error.kind());
                return answer.send(Err(ProcessError::Start { program, reason, kind }));
            }
        };
        answer.started();
        let pid = Pid::from_child(&child);
        let running = Arc::clone(&self.running);
        running.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (plugin, pid));
        let daemon = Arc::clone(&self.daemon);
        let waits = std::thread::Builder::new().name("jobtap-process".to_owned());
        let waiting = waits.spawn(move || {
            daemon.prepare_thread();
            let end = wait(&mut child, pid, process.stdin, lines, || {
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            });
            answer.send(end.map_err(|error| ProcessError::Start {
                program: process.program,
                reason: error.to_string(),
                kind: error.kind(),
            }));
        });
        if waiting.is_err() {
            // `answer` was dropped with the closure, which reports an error to whoever waits for the process.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn start(process: &Process) -> io::Result<Child> {
    let mut command = Command::new(&process.program);
    command.args(&process.args).envs(&process.env).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if process.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    if let Some(directory) = &process.cwd {
        command.current_dir(directory);
    }
    command.spawn()
}

/// Waits for the end of the process. `exited` is called before the process is reaped, while no other process can have
/// its id.
fn wait(
    child: &mut Child,
    pid: Pid,
    stdin: Vec<u8>,
    lines: Option<LineSink>,
    exited: impl FnOnce(),
) -> io::Result<ProcessEnd> {
    if let Some(mut pipe) = child.stdin.take() {
        // Ignore errors: the process may exit without having read all its input.
        on_thread(move || drop(pipe.write_all(&stdin)));
    }
    let stdout = child.stdout.take().map(|pipe| capture(pipe, Stream::Stdout, lines.clone()));
    let stderr = child.stderr.take().map(|pipe| capture(pipe, Stream::Stderr, lines));
    let still_there = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), still_there) {}
    exited();
    let status = child.wait()?;
    let until = Instant::now() + REST;
    let rest = |output: Option<Output>| output.map(|output| output.rest(until)).unwrap_or_default();
    let status = WaitStatus(status.into_raw());
    Ok(ProcessEnd { status, stdout: rest(stdout), stderr: rest(stderr) })
}

fn on_thread(work: impl FnOnce() + Send + 'static) {
    // If there is no thread, the pipe is dropped, and the process finds its input or output closed.
    let _ = std::thread::Builder::new().name("jobtap-pipe".to_owned()).spawn(work);
}

/// An output that is being read.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl Output {
    /// Waits until the pipe is closed, at most until this time, and returns what was read.
    fn rest(self, until: Instant) -> Vec<u8> {
        let _ = self.end.recv_timeout(until.saturating_duration_since(Instant::now()));
        std::mem::take(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn capture(
    mut pipe: impl Read + Send + 'static,
    stream: Stream,
    lines: Option<LineSink>,
) -> Output {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (done, end): (Sender<()>, _) = channel();
    let kept = Arc::clone(&bytes);
    on_thread(move || {
        let mut part = [0; 8192];
        let mut line = Vec::new();
        while let Ok(count @ 1..) = pipe.read(&mut part) {
            let read = part.get(..count).unwrap_or_default();
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = KEPT.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(read.get(..room).unwrap_or_default());
            drop(kept);
            if let Some(sink) = &lines {
                for byte in read {
                    match byte {
                        b'\n' => send_line(sink, stream, &mut line),
                        byte if line.len() < KEPT => line.push(*byte),
                        _ => {}
                    }
                }
            }
        }
        if let Some(sink) = lines.filter(|_| !line.is_empty()) {
            send_line(&sink, stream, &mut line);
        }
        drop(done);
    });
    Output { bytes, end }
}

fn send_line(sink: &LineSink, stream: Stream, line: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    sink.send(OutputLine { stream, text });
}
