//! The process of the shepherd: found, started and greeted, or described when it does not respond.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::OFlags;

use super::{ATTEMPTS, ExecError, LOG, LocalConfig};
use crate::exec::protocol::{ShepherdMessage, ShepherdRequest, VERSION, decode_message, encode};
use crate::exec::{HeldJob, SHEPHERD_ARGUMENT, socket};
use crate::files::Dir;
use crate::open_files::OpenFiles;

/// The number of bytes of the log that are searched for its last line; a line is shorter.
const LOG_TAIL: u64 = 4096;

/// Returns a connection on which the shepherd has sent its hello, and the jobs that it holds.
pub(super) fn open_connection(
    config: &LocalConfig,
) -> Result<(UnixStream, Vec<HeldJob>), ExecError> {
    let dir = &config.state_dir;
    let failed = |source: io::Error| match is_timeout(&source) {
        true => ExecError::Silent { dir: dir.clone(), what_to_do: describe_silence(config) },
        false => ExecError::Start { dir: dir.clone(), source },
    };
    let log = dir.join(LOG);
    let before = log.metadata().map_or(0, |found| found.len());
    for _ in 0..ATTEMPTS {
        let stream = match find_or_start(config) {
            Ok(stream) => stream,
            // It exited before the connection was made.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(failed(error)),
        };
        match greet(&stream, config.patience) {
            Ok(ShepherdMessage::List { jobs }) => return Ok((stream, jobs)),
            Ok(ShepherdMessage::Refused { reason }) => {
                return Err(ExecError::Refused { dir: dir.clone(), reason });
            }
            Err(error) if is_timeout(&error) => return Err(failed(error)),
            // It exited after the connection was made.
            _ => {}
        }
    }
    Err(ExecError::NoAnswer { dir: dir.clone(), reason: last_log_line(&log, before) })
}

pub(in crate::exec) fn find_or_start(config: &LocalConfig) -> io::Result<UnixStream> {
    let connect = || socket::connect(&config.state_dir, config.patience);
    if let Some(stream) = connect()? {
        return Ok(stream);
    }
    start_shepherd(config)?;
    connect()?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
}

fn start_shepherd(config: &LocalConfig) -> io::Result<()> {
    let listener = OwnedFd::from(socket::listen(&config.state_dir)?);
    let log = open_log(&config.state_dir)?;
    let mut words = config.program.iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut shepherd = Command::new(program)
        .args(words)
        .arg(SHEPHERD_ARGUMENT)
        .arg(&config.state_dir)
        .arg(config.idle_time.as_millis().to_string())
        .arg(OpenFiles::of_this_process().found().to_string())
        .arg(if config.temporary { std::process::id() } else { 0 }.to_string())
        .current_dir("/")
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .spawn()?;
    // Reaps the shepherd, so that it does not stay a zombie if it exits before the manager.
    Builder::new().name("exec-shepherd".to_owned()).spawn(move || shepherd.wait())?;
    Ok(())
}

/// Opens the log of all shepherds of the state directory, creating it if it does not exist.
fn open_log(state_dir: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let named = |error| io::Error::new(io::Error::kind(&error), format!("{LOG}: {error}"));
    let log = Dir::open(state_dir)?.file(LOG, flags, 0o600).map_err(named)?;
    match log.metadata()?.is_file() {
        true => Ok(log),
        false => {
            let text = format!("{LOG} is not a regular file: remove it");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Sends the hello and a request for the list of jobs; returns the response to the latter, or the
/// refusal. Waits at most `patience` for each line.
fn greet(stream: &UnixStream, patience: Duration) -> io::Result<ShepherdMessage> {
    let mut write = stream;
    write.write_all(&encode(&ShepherdRequest::Hello { version: VERSION })?)?;
    write.write_all(&encode(&ShepherdRequest::List)?)?;
    stream.set_read_timeout(Some(patience))?;
    // The shepherd sends no events before a start request, so this reader's buffer holds nothing else
    // when it is dropped.
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply = decode_message(&line)?;
        if !matches!(reply, ShepherdMessage::Hello { .. }) {
            stream.set_read_timeout(None)?;
            return Ok(reply);
        }
    }
}

/// Whether an operation on a socket timed out.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Names the process of a shepherd that does not respond, and says how to resolve that.
pub(super) fn describe_silence(config: &LocalConfig) -> String {
    let seconds = config.patience.as_secs_f64();
    let Some(pid) = find_process(&config.state_dir) else {
        return format!("nothing in {seconds} s, and its process can't be found in /proc");
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in parentheses and may itself contain any character, so the state follows the last ')'.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        Some('T' | 't') => {
            format!("its process {pid} is stopped; let it go on with \"kill -CONT {pid}\"")
        }
        _ => format!(
            "nothing from its process {pid} in {seconds} s; if it stays so, end it with \"kill -9 \
             {pid}\": its jobs are then lost, and their processes may run on"
        ),
    }
}

/// Finds the process of the shepherd of a state directory by its arguments.
fn find_process(state_dir: &Path) -> Option<u32> {
    let is_ours = |process: &Path| {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|word| word == SHEPHERD_ARGUMENT.as_bytes())
            && words.next() == Some(state_dir.as_os_str().as_encoded_bytes())
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        is_ours(&entry.path()).then_some(pid)
    });
    let ours: Vec<u32> = numbered.collect();
    // Its forker, which is its child, has the same arguments.
    ours.iter().copied().find(|pid| parent(*pid).is_none_or(|parent| !ours.contains(&parent)))
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The last line that was added to the log since it had `before` bytes, or a reference to the log.
fn last_log_line(log: &Path, before: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(before.max(length.saturating_sub(LOG_TAIL))))?;
        let mut text = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map_or_else(|| format!("see {}", log.display()), str::to_owned)
}
