//! The processes of plugins, which run as the broker's user and on its host.
//!
//! The broker waits for every child of its process (`waitpid(-1)`), so the exit status of our children may be
//! lost. Therefore a small shell runs the program and writes its status to a pipe. The shell doesn't interpret
//! any text of the plugin: the program and its arguments are positional parameters.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{OutputLine, Process, ProcessEnd, ProcessError, Stream};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::ffi;
use crate::runtime::Work;

/// Runs the program `$0` and writes its status to file descriptor 3. The shell survives signals to the process
/// group; the program doesn't inherit its traps, since they aren't empty. The shell itself prints nothing: only the
/// subshell has the program's standard error.
const SCRIPT: &str = "trap : HUP INT QUIT TERM USR1 USR2; exec 4>&2 2>/dev/null; \
                      ( exec \"$0\" \"$@\" 2>&4 3>&- 4>&- ); printf %d $? >&3";

/// The number of bytes of each stream that are kept.
const KEPT: usize = 1 << 20;

/// How long to wait for the rest of the output after the program has exited: a process that it has left behind
/// may keep the stream open.
const REST: Duration = Duration::from_millis(500);

/// The running processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running(HashMap<(PluginKey, ProcessKey), Entry>);

#[derive(Debug)]
struct Entry {
    group: Pid,
    /// The last signal that was sent to it.
    signal: Option<i32>,
}

impl Processes {
    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a command. For one that runs a process, returns the future that does so.
    pub(crate) fn command(&self, plugin: PluginKey, command: ProcessCommand) -> Option<Work> {
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                return Some(self.run((plugin, key), process, lines, answer));
            }
            ProcessCommand::Signal { key, signum } => {
                if let Some(entry) = self.lock().0.get_mut(&(plugin, key)) {
                    entry.send(signum);
                }
            }
            ProcessCommand::KillAll => {
                let mut running = self.lock();
                let own = running.0.iter_mut().filter(|((of, _), _)| *of == plugin);
                own.for_each(|(_, entry)| entry.send(Signal::KILL.as_raw()));
            }
        }
        None
    }

    fn run(
        &self,
        key: (PluginKey, ProcessKey),
        process: Process,
        lines: Option<LineSink>,
        mut answer: ProcessAnswer,
    ) -> Work {
        let processes = self.clone();
        let program = process.program.clone();
        // Start the process in the future, so on the runtime's thread, since a fork of the broker takes long.
        Box::pin(async move {
            let result = match start(&process) {
                Ok((child, status)) => {
                    answer.started();
                    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    if let Some(group) = group {
                        processes.lock().0.insert(key, Entry { group, signal: None });
                    }
                    let end = follow(child, status, process.stdin, lines).await;
                    let signal = processes.lock().0.remove(&key).and_then(|entry| entry.signal);
                    end.map(|end| end.into_end(signal))
                }
                Err(error) => Err(error),
            };
            answer.send(result.map_err(|error| ProcessError::Start {
                program,
                reason: error.to_string(),
                kind: error.kind(),
            }));
        })
    }
}

impl Entry {
    fn send(&mut self, signum: i32) {
        self.signal = Some(signum);
        if let Some(signal) = Signal::from_named_raw(signum) {
            // Fails if the group has ended.
            let _ = kill_process_group(self.group, signal);
        }
    }
}

/// The status and output of a process that has ended.
struct Followed {
    /// The shell's `$?`; `None` if the shell was killed together with the program.
    status: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Followed {
    fn into_end(self, signal: Option<i32>) -> ProcessEnd {
        let signaled = |number: i32| WaitStatus::from_signal(number);
        let status = match self.status {
            // A shell reports a signal as 128 plus its number.
            Some(status @ 129..=192) => signaled(status - 128),
            Some(status) => WaitStatus::from_exit_code(u8::try_from(status).unwrap_or(u8::MAX)),
            None => signaled(signal.unwrap_or(Signal::KILL.as_raw())),
        };
        ProcessEnd { status, stdout: self.stdout, stderr: self.stderr }
    }
}

/// Starts the shell with the program. Also returns the read end of the pipe for its status.
fn start(process: &Process) -> std::io::Result<(Child, OwnedFd)> {
    let program = find(&process.program, process.cwd.as_deref())?;
    let (status, write) = std::io::pipe()?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(SCRIPT).arg(program).args(&process.args).envs(&process.env);
    if let Some(directory) = &process.cwd {
        command.current_dir(directory);
    }
    let input = if process.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    ffi::pass_as_fd_3(&mut command, &write)?;
    Ok((command.spawn()?, status.into()))
}

/// Looks up a program as a shell would, so that a missing program is an error instead of an exit status.
fn find(program: &str, cwd: Option<&Path>) -> std::io::Result<PathBuf> {
    let check = |path: PathBuf| {
        let seen = match cwd {
            Some(cwd) if path.is_relative() => cwd.join(&path),
            _ => path.clone(),
        };
        let metadata = std::fs::metadata(seen)?;
        match metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            true => Ok(path),
            false => Err(std::io::Error::from(ErrorKind::PermissionDenied)),
        }
    };
    if program.contains('/') {
        return check(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut error = std::io::Error::from(ErrorKind::NotFound);
    for directory in std::env::split_paths(&path) {
        match check(directory.join(program)) {
            Ok(found) => return Ok(found),
            Err(other) if other.kind() != ErrorKind::NotFound => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

/// Feeds a process its input and reads its output until it has ended.
async fn follow(
    mut child: Child,
    status: OwnedFd,
    stdin: Vec<u8>,
    lines: Option<LineSink>,
) -> std::io::Result<Followed> {
    let mut status = pipe::Receiver::from_owned_fd(status)?;
    let output = |stream: Option<OwnedFd>| stream.map(pipe::Receiver::from_owned_fd).transpose();
    let stdout = output(child.stdout.take().map(OwnedFd::from))?;
    let stderr = output(child.stderr.take().map(OwnedFd::from))?;
    let input = child.stdin.take().map(OwnedFd::from);
    let input = input.map(pipe::Sender::from_owned_fd).transpose()?;
    let write = async move {
        if let Some(mut input) = input {
            // Ignore errors: a program may exit without having read all its input.
            let _ = input.write_all(&stdin).await;
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut text = Vec::new();
    {
        let streams = async {
            tokio::join!(
                write,
                read(stdout, &mut out, Stream::Stdout, lines.clone()),
                read(stderr, &mut err, Stream::Stderr, lines.clone()),
            );
        };
        tokio::pin!(streams);
        let mut have_ended = false;
        loop {
            tokio::select! {
                () = &mut streams, if !have_ended => have_ended = true,
                read = status.read_to_end(&mut text) => {
                    read?;
                    break;
                }
            }
        }
        if !have_ended {
            // Output that hasn't come by then is dropped.
            let _ = tokio::time::timeout(REST, streams).await;
        }
    }
    reap(child).await;
    let status = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    Ok(Followed { status, stdout: out, stderr: err })
}

/// Waits for the shell, which exits right after it has written the status. The broker may have reaped it already.
async fn reap(mut child: Child) {
    for _ in 0..50 {
        match child.try_wait() {
            Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// Reads a stream to its end.
async fn read(
    stream: Option<pipe::Receiver>,
    kept: &mut Vec<u8>,
    which: Stream,
    lines: Option<LineSink>,
) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 8192];
    let mut line = Vec::new();
    let send = |line: &mut Vec<u8>| {
        if let Some(sink) = &lines {
            let text = String::from_utf8_lossy(line).into_owned();
            sink.send(OutputLine { stream: which, text });
        }
        line.clear();
    };
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        let room = KEPT.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if lines.is_some() {
            for byte in bytes {
                match byte {
                    b'\n' => send(&mut line),
                    byte => line.push(*byte),
                }
            }
        }
    }
    if !line.is_empty() {
        send(&mut line);
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ExitError;

    use super::*;
    use crate::runtime::{Runtime, Workers};

    fn run(process: Process) -> Result<ProcessEnd, ProcessError> {
        let runtime = Runtime::start().unwrap();
        let (answer, end) = ProcessAnswer::pair();
        let (key, lines) = (ProcessKey(1), None);
        runtime.process(PluginKey(1), ProcessCommand::Run { key, process, lines, answer });
        let result = runtime.block_on(end);
        assert!(runtime.stop());
        result
    }

    #[test]
    fn a_process_has_its_arguments_input_and_variables() {
        let script = "read line; printf '%s %s %s' \"$line\" \"$1\" \"$A\"; echo no >&2; exit 3";
        let process =
            Process::new("sh").args(["-c", script, "sh", "a b"]).env("A", "c d").stdin("in\n");
        let end = run(process).unwrap();
        assert_eq!(String::from_utf8_lossy(&end.stdout), "in a b c d");
        assert_eq!(String::from_utf8_lossy(&end.stderr), "no\n");
        assert_eq!(end.status.exit_code(), Some(3));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = run(Process::new("no-such-program-of-jobtap")).unwrap_err();
        assert_eq!(error.status().and_then(|status| status.exit_code()), Some(127), "{error}");
        let error = run(Process::new("/etc/passwd")).unwrap_err();
        assert_eq!(error.status().and_then(|status| status.exit_code()), Some(126), "{error}");
    }

    #[test]
    fn a_program_that_is_killed_says_by_which_signal() {
        let end = run(Process::new("sh").args(["-c", "kill -TERM $$"])).unwrap();
        assert_eq!(end.success(), Err(ExitError::Killed(15)));
        assert_eq!(String::from_utf8_lossy(&end.stderr), "");
    }

    #[test]
    fn a_removed_plugins_processes_are_killed_with_their_children() {
        let runtime = Runtime::start().unwrap();
        let (answer, end) = ProcessAnswer::pair();
        let process = Process::new("sh").args(["-c", "echo up; sleep 100 & wait"]);
        let (line, mut lines) = tokio::sync::mpsc::unbounded_channel();
        let sink = LineSink::new(move |output| line.send(output.text).unwrap());
        let key = ProcessKey(1);
        let lines_to = Some(sink);
        let command = ProcessCommand::Run { key, process, lines: lines_to, answer };
        runtime.process(PluginKey(1), command);
        assert_eq!(runtime.block_on(lines.recv()).as_deref(), Some("up"));
        runtime.process(PluginKey(1), ProcessCommand::KillAll);
        let end = runtime.block_on(end).unwrap();
        assert_eq!(end.success(), Err(ExitError::Killed(9)));
    }
}
