//! Commands that a script runs, by `os.execute` and `io.popen`: to their end, and no longer than the script
//! itself may run.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::native::lock;

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// A raw wait status: 256 times an exit code, or the number of a signal.
    pub(super) status: i32,
    pub(super) output: Vec<u8>,
}

/// The limits of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) deadline: Instant,
    /// The maximum output in bytes. The command is killed when it writes more.
    pub(super) output: usize,
}

/// The commands of all scripts of this process.
struct Commands {
    /// The process groups of the commands that are running.
    groups: BTreeSet<u32>,
    /// Whether no more commands may be started.
    ended: bool,
}

static COMMANDS: Mutex<Commands> = Mutex::new(Commands { groups: BTreeSet::new(), ended: false });

/// Kills the commands that scripts of this process are running, with all that they have started, and prevents
/// scripts from starting more. For a program that exits while a script runs.
pub fn kill_commands() {
    let mut commands = lock(&COMMANDS);
    commands.ended = true;
    commands.groups.iter().for_each(|group| kill(*group));
}

/// Kills a process group. That fails if all of its processes have exited.
fn kill(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// How often to check whether a command that has closed its output has exited.
const POLL: Duration = Duration::from_millis(5);

/// Runs `sh -c COMMAND` with a text as its standard input. Its output is captured if `capture`.
///
/// # Errors
/// It can't be started, or it was killed because it took too long or wrote too much.
pub(super) fn run(
    command: &str,
    input: Vec<u8>,
    capture: bool,
    bounds: Bounds,
) -> io::Result<Finished> {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(if capture { Stdio::piped() } else { Stdio::null() })
        // A group of its own, so that all that it starts can be killed with it.
        .process_group(0);
    let mut child = {
        // Locked while the command is started, so that `kill_commands` can't miss it.
        let mut commands = lock(&COMMANDS);
        if commands.ended {
            return Err(io::Error::other("the program ends"));
        }
        let child = shell.spawn()?;
        commands.groups.insert(child.id());
        child
    };
    let group = child.id();
    let result = finish(&mut child, input, bounds);
    if result.is_err() {
        kill(group);
        // The process itself was killed, so this doesn't take long.
        let _ = child.wait();
    }
    lock(&COMMANDS).groups.remove(&group);
    result
}

fn finish(child: &mut Child, input: Vec<u8>, bounds: Bounds) -> io::Result<Finished> {
    if let Some(mut stdin) = child.stdin.take() {
        // A command that doesn't read would block the write, so a thread writes. It ends with the pipe.
        std::thread::Builder::new().name("lua input".to_owned()).spawn(move || {
            // The command may end without having read all of it.
            let _ = stdin.write_all(&input);
        })?;
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("lua output".to_owned())
            .spawn(move || read_all(stdout, &sender))?;
        loop {
            match receiver.recv_timeout(bounds.deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => output.extend_from_slice(&piece),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(too_long()),
            }
            if output.len() > bounds.output {
                return Err(io::Error::other("the command wrote too much output"));
            }
        }
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Finished { status: status.into_raw(), output });
        }
        if Instant::now() >= bounds.deadline {
            return Err(too_long());
        }
        std::thread::sleep(POLL);
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the command took too long")
}

/// Sends all that a command writes, until its output ends or the receiver is gone.
fn read_all(mut stdout: impl Read, sender: &SyncSender<Vec<u8>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = stdout.read(&mut buffer) {
        let piece = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send(piece).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(seconds: u64) -> Bounds {
        Bounds { deadline: Instant::now() + Duration::from_secs(seconds), output: 1 << 20 }
    }

    #[test]
    fn output_and_status_of_a_command_are_returned() {
        let finished = run("cat; exit 3", b"text".to_vec(), true, within(20)).unwrap();
        assert_eq!(finished, Finished { status: 3 << 8, output: b"text".to_vec() });
        let finished = run("kill -9 $$", Vec::new(), false, within(20)).unwrap();
        assert_eq!(finished.status, 9);
    }

    #[test]
    fn a_command_that_never_ends_is_killed_with_its_children() {
        let before = Instant::now();
        let bounds = Bounds { deadline: before + Duration::from_millis(200), output: 1 << 20 };
        for capture in [false, true] {
            let error = run("sleep 600 & sleep 600", Vec::new(), capture, bounds).unwrap_err();
            assert_eq!(error.to_string(), "the command took too long");
        }
        assert!(before.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_command_without_end_of_output_is_killed() {
        let error = run("yes", Vec::new(), true, within(20)).unwrap_err();
        assert_eq!(error.to_string(), "the command wrote too much output");
    }
}
