//! The executor of this machine: starts a shepherd, or connects to the one that an earlier manager
//! started.
//!
//! Two threads serve a connection, so that a slow shepherd does not delay the manager and a busy manager does not delay
//! the shepherd: one writes requests, one reads events. When a shepherd dies, another process takes its place, or
//! another shepherd is started. The manager continues its jobs there, and that shepherd reports which of them are lost.
//!
//! If a shepherd exists but does not respond, because it is stopped or hangs, a starting manager fails
//! with an error that names the process. A manager that is already running continues and waits for the
//! shepherd, since the tasks of its jobs may still be running.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use rustix::fs::OFlags;

use super::protocol::{Resumed, ShepherdMessage, ShepherdRequest, VERSION, decode_message, encode};
use super::{
    Executor, ExecutorReport, HeldJob, JobCommand, SHEPHERD_ARGUMENT, SHEPHERD_LOST, Seen,
    StartJob, socket,
};
use crate::files::Dir;
use crate::open_files::OpenFiles;

/// The number of shepherds that a manager tries to reach. A shepherd may exit for lack of work just as the manager
/// connects; then another one is started.
const ATTEMPTS: u32 = 3;

/// How long a shepherd may take to respond or to read a request. It does so between two pieces of work
/// that take milliseconds, and responds sooner than this even on a host that swaps.
const PATIENCE: Duration = Duration::from_secs(10);

/// Name of the shepherd's log in the state directory.
pub(crate) const LOG: &str = "shepherd.log";

/// The number of bytes of events that are read at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// The minimum number of running jobs at which their events are gathered. With fewer jobs nothing is delayed, since the
/// next job may be waiting for the resources of the one that has ended.
const MANY: usize = 16;

/// How long events of [`MANY`] jobs are gathered. Each report costs the manager a turn of its engine and a sync of its
/// disk, and the jobs that it then starts cost the shepherd a sync of its own.
const GATHERING: Duration = Duration::from_millis(2);

/// The number of bytes of the log that are searched for its last line; a line is shorter.
const LOG_TAIL: u64 = 4096;

/// An error that prevents jobs from running on this machine.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The state directory, its socket or the program can't be used.
    #[error("cannot start a shepherd in {dir}: {source}")]
    Start {
        /// The state directory.
        dir: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The shepherd ended before it responded.
    #[error("the shepherd in {dir} ends before it answers: {reason}")]
    NoAnswer {
        /// The state directory.
        dir: PathBuf,
        /// The last line of its log, or the path of the log.
        reason: String,
    },
    /// The shepherd exists but is stopped or hangs.
    #[error("the shepherd in {dir} does not answer: {what_to_do}")]
    Silent {
        /// The state directory.
        dir: PathBuf,
        /// Its process, and how to resolve the problem.
        what_to_do: String,
    },
    /// The shepherd is from a build that this one can't work with.
    #[error(
        "the shepherd in {dir} refuses this manager: {reason}; cancel its jobs with the build that started them"
    )]
    Refused {
        /// The state directory.
        dir: PathBuf,
        /// The reason that the shepherd gave.
        reason: String,
    },
}

/// How jobs are run on this machine.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// The manager's state directory: socket, output, input and log of the shepherd are there.
    pub state_dir: PathBuf,
    /// The program that becomes the shepherd, with arguments to precede [`SHEPHERD_ARGUMENT`].
    pub program: Vec<OsString>,
    /// How long a shepherd without jobs waits for a manager.
    pub idle_time: Duration,
    /// How long a shepherd may take to respond, or to read a request.
    pub patience: Duration,
    /// Whether the instance ends with this process: when the process is gone the shepherd ends the jobs,
    /// removes the state directory and exits.
    pub temporary: bool,
}

impl LocalConfig {
    /// The configuration for the running program, with the default times.
    pub fn new(state_dir: PathBuf) -> io::Result<Self> {
        Ok(Self {
            state_dir,
            program: vec![std::env::current_exe()?.into_os_string()],
            idle_time: Duration::from_secs(5),
            patience: PATIENCE,
            temporary: false,
        })
    }
}

/// Runs jobs on this machine through a shepherd. Dropping it leaves shepherd and jobs alone.
pub struct LocalExecutor {
    held: Vec<HeldJob>,
    link: Arc<Link>,
    requests: Option<Sender<ShepherdRequest>>,
    writer: Option<JoinHandle<()>>,
}

/// The state that the two threads share.
struct Link {
    config: LocalConfig,
    report: Box<dyn Fn(ExecutorReport) + Send + Sync>,
    /// Set when the executor is dropped: no more requests follow.
    closing: AtomicBool,
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// Number of the newest connection.
    connections: u64,
    /// Jobs whose release has not been reported.
    open: BTreeMap<JobId, OpenJob>,
    /// Whether the shepherd was asked to exit. Then none takes its place.
    shut_down: bool,
}

/// A job whose start was requested and whose release has not been reported.
struct OpenJob {
    /// The number of the connection on which the start was requested.
    connection: u64,
    /// The start request, until the shepherd has reported an event of the job: a shepherd that died may not have read
    /// it.
    request: Option<Vec<u8>>,
    /// The request to cancel it.
    cancel: Option<Vec<u8>>,
    /// The events that were reported.
    seen: Seen,
    /// Whether [`ExecEvent::Started`] was reported.
    started: bool,
}

impl OpenJob {
    fn new(connection: u64, start: &StartJob, line: &[u8]) -> Self {
        let StartJob { seen, reattach, .. } = start;
        let request = Some(line.to_owned());
        Self { connection, request, cancel: None, seen: *seen, started: *reattach }
    }

    /// Counts an event that is reported.
    fn count(&mut self, event: &ExecEvent) {
        self.request = None;
        match event {
            ExecEvent::Log { .. } => self.seen.log_entries += 1,
            ExecEvent::Exception { .. } | ExecEvent::Lost { .. } => self.seen.exceptions += 1,
            ExecEvent::Started { .. } => self.started = true,
            ExecEvent::Finished { .. } => self.seen.finished = true,
            _ => {}
        }
    }
}

/// The connection to the shepherd.
#[derive(Clone)]
struct Connection {
    number: u64,
    stream: Arc<UnixStream>,
}

/// Why a request was not sent.
enum Unsent {
    /// The request failed.
    Failed(UnsentRequest),
    /// The job of a start request was already reported as lost.
    ReportedLost,
    /// The executor is closed and the shepherd reads no requests.
    GivenUp,
}

/// Why a request failed. The text is for the user of a job that can't be started.
#[derive(Debug, thiserror::Error)]
enum UnsentRequest {
    /// It has no text form.
    #[error("cannot be described: {0}")]
    Unwritable(serde_json::Error),
    /// There is no shepherd, and none can be started.
    #[error(transparent)]
    NoShepherd(ExecError),
    /// Each shepherd ended before it had read the request.
    #[error("the shepherd can't be reached")]
    Unread,
}

impl LocalExecutor {
    /// Finds or starts the shepherd of `config.state_dir`, which must exist. `report` is called on threads
    /// of the executor, so it must not wait for the executor.
    ///
    /// # Errors
    /// Fails if no shepherd can be reached or started; the message says what to do.
    pub fn connect(
        mut config: LocalConfig,
        report: impl Fn(ExecutorReport) + Send + Sync + 'static,
    ) -> Result<Self, ExecError> {
        let dir = config.state_dir.clone();
        let failed = |source| ExecError::Start { dir: dir.clone(), source };
        // The shepherd has another working directory, so a relative path would not reach it.
        config.state_dir = config.state_dir.canonicalize().map_err(failed)?;
        let (stream, held) = open_connection(&config)?;
        let link = Arc::new(Link {
            config,
            report: Box::new(report),
            closing: AtomicBool::new(false),
            state: Mutex::new(State::default()),
            closed: Condvar::new(),
        });
        link.adopt(&mut link.lock(), stream).map_err(failed)?;
        let (requests, receiver) = channel();
        let writing = Arc::clone(&link);
        let writer = Builder::new()
            .name("exec-requests".to_owned())
            .spawn(move || writing.write_requests(&receiver))
            .map_err(failed)?;
        Ok(Self { held, link, requests: Some(requests), writer: Some(writer) })
    }

    fn request(&self, request: ShepherdRequest) {
        if let Some(requests) = &self.requests {
            // The writer lives as long as the sender does.
            let _ = requests.send(request);
        }
    }
}

impl Executor for LocalExecutor {
    fn start(&self, job: StartJob) {
        self.request(ShepherdRequest::Start(Box::new(job)));
    }

    fn command(&self, command: JobCommand) {
        self.request(ShepherdRequest::Job(command));
    }

    fn held(&self) -> &[HeldJob] {
        &self.held
    }

    fn shut_down(&self, limit: Duration) -> bool {
        self.request(ShepherdRequest::Shutdown);
        let mut state = self.link.lock();
        state.shut_down = true;
        let connected = |state: &mut State| state.connection.is_some();
        let waited = self.link.closed.wait_timeout_while(state, limit, connected);
        waited.unwrap_or_else(PoisonError::into_inner).0.connection.is_none()
    }
}

impl Drop for LocalExecutor {
    /// Waits until all requests are sent, except when the shepherd reads none: the next manager repeats
    /// them.
    fn drop(&mut self) {
        self.link.closing.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_requests(self: &Arc<Self>, requests: &Receiver<ShepherdRequest>) {
        for request in requests {
            let note = match self.send(&request) {
                Ok(()) | Err(Unsent::ReportedLost) => continue,
                Err(Unsent::Failed(error)) => error.to_string(),
                Err(Unsent::GivenUp) => break,
            };
            match request {
                ShepherdRequest::Start(job) => {
                    // The nodes are drained with this reason, since no other job could be started either.
                    let reason = format!("no job can be started: {note}");
                    self.report_lost(job.id, note, reason);
                }
                ShepherdRequest::Job(JobCommand::Tasks { id }) => {
                    (self.report)(ExecutorReport::Tasks { id, tasks: Vec::new() });
                }
                _ => {}
            }
        }
        if let Some(Connection { stream, .. }) = self.lock().connection.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends a request, to a new shepherd if the previous one is gone.
    fn send(self: &Arc<Self>, request: &ShepherdRequest) -> Result<(), Unsent> {
        let failed = |error| Err(Unsent::Failed(error));
        let line = match encode(request) {
            Ok(line) => line,
            Err(error) => return failed(UnsentRequest::Unwritable(error)),
        };
        for _ in 0..ATTEMPTS {
            let Connection { number, stream } = match self.connection_for(request, &line) {
                Ok(connection) => connection,
                Err(error) => return failed(UnsentRequest::NoShepherd(error)),
            };
            // Written without the lock: the thread that reads events must not wait for a shepherd that
            // reads no requests.
            let Err(error) = self.write(&stream, &line) else { return Ok(()) };
            let mut state = self.lock();
            state.connection.take_if(|current| current.number == number);
            if let ShepherdRequest::Start(job) = request {
                // The reading thread may have noticed the end of the connection first. It then has reported the job as
                // lost, or requested its start on another connection, so the start must not be repeated.
                match state.open.remove(&job.id) {
                    None => return Err(Unsent::ReportedLost),
                    Some(moved) if moved.connection != number => {
                        state.open.insert(job.id, moved);
                        return Ok(());
                    }
                    Some(_) => {}
                }
            }
            if is_timeout(&error) {
                return Err(Unsent::GivenUp);
            }
        }
        failed(UnsentRequest::Unread)
    }

    /// Returns the connection for a request, and registers the job of a start request as open.
    fn connection_for(
        self: &Arc<Self>,
        request: &ShepherdRequest,
        line: &[u8],
    ) -> Result<Connection, ExecError> {
        let mut state = self.lock();
        let connection = match &state.connection {
            Some(connection) => connection.clone(),
            None => {
                // Under the lock, so that two threads don't start a shepherd or connect at the same time.
                let (stream, _) = open_connection(&self.config)?;
                self.adopt(&mut state, stream).map_err(|source| ExecError::Start {
                    dir: self.config.state_dir.clone(),
                    source,
                })?
            }
        };
        // Registered before it is sent: the release may be reported before the write returns.
        match request {
            ShepherdRequest::Start(job) => {
                state.open.insert(job.id, OpenJob::new(connection.number, job, line));
            }
            ShepherdRequest::Job(JobCommand::Cancel { id, .. }) => {
                if let Some(job) = state.open.get_mut(id) {
                    job.cancel.get_or_insert_with(|| line.to_owned());
                }
            }
            _ => {}
        }
        Ok(connection)
    }

    /// Writes a line, however long the shepherd takes to read it, unless the executor is closed.
    fn write(&self, mut stream: &UnixStream, line: &[u8]) -> io::Result<()> {
        let mut rest = line;
        let mut warned = false;
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => rest = rest.get(size..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !is_timeout(&error) || self.closing.load(Ordering::Relaxed) => {
                    return Err(error);
                }
                Err(_) if std::mem::replace(&mut warned, true) => {}
                Err(_) => {
                    let text = describe_silence(&self.config);
                    (self.report)(ExecutorReport::Warning(format!(
                        "the shepherd takes no requests: {text}"
                    )));
                }
            }
        }
        if warned {
            (self.report)(ExecutorReport::Warning("the shepherd takes requests again".to_owned()));
        }
        Ok(())
    }

    /// Makes `stream` the connection in use and begins to read from it.
    fn adopt(self: &Arc<Self>, state: &mut State, stream: UnixStream) -> io::Result<Connection> {
        let reader = BufReader::with_capacity(READ_AT_ONCE, stream.try_clone()?);
        state.connections += 1;
        let number = state.connections;
        let link = Arc::clone(self);
        Builder::new().name("exec-events".to_owned()).spawn(move || {
            link.read_events(reader);
            link.closed(number);
        })?;
        let connection = Connection { number, stream: Arc::new(stream) };
        state.connection = Some(connection.clone());
        Ok(connection)
    }

    fn read_events(&self, mut reader: BufReader<UnixStream>) {
        let (mut line, mut events) = (Vec::new(), Vec::new());
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            match decode_message(&line) {
                Ok(ShepherdMessage::Event(event)) => events.push(event),
                Ok(ShepherdMessage::Tasks { id, tasks }) => {
                    self.report_events(&mut events);
                    (self.report)(ExecutorReport::Tasks { id, tasks });
                }
                _ => {}
            }
            line.clear();
            // Events that arrived together are reported together, so that the manager isn't woken for the first of them
            // alone.
            if !reader.buffer().contains(&b'\n') && self.report_events(&mut events) >= MANY {
                thread::sleep(GATHERING);
            }
        }
    }

    /// Reports events, and returns the number of open jobs.
    fn report_events(&self, events: &mut Vec<ExecEvent>) -> usize {
        let mut state = self.lock();
        for event in &*events {
            if let ExecEvent::Released { id } = event {
                state.open.remove(id);
            } else if let Some(job) = state.open.get_mut(&event.id()) {
                job.count(event);
            }
        }
        let open = state.open.len();
        // Reported without the lock, so that a slow callback does not delay requests.
        drop(state);
        if !events.is_empty() {
            (self.report)(ExecutorReport::Events(std::mem::take(events)));
        }
        open
    }

    /// Handles the end of a connection. Unless the executor itself closed it, the shepherd is gone. Its jobs continue
    /// with the shepherd that takes its place, if there is one.
    fn closed(self: &Arc<Self>, number: u64) {
        if self.closing.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        if state.connection.take_if(|current| current.number == number).is_some() {
            self.closed.notify_all();
        }
        let any = state.open.values().any(|job| job.connection == number);
        if !any || !state.shut_down && self.resume(&mut state, number).is_ok() {
            return;
        }
        let lost: Vec<JobId> = state
            .open
            .extract_if(.., |_, job| job.connection == number)
            .map(|(id, _)| id)
            .collect();
        // Reported without the lock, so that a slow callback does not delay requests.
        drop(state);
        for id in lost {
            let note = "job is lost: the shepherd ended; processes of the job may still run";
            self.report_lost(id, note.to_owned(), SHEPHERD_LOST.to_owned());
        }
    }

    /// Continues the jobs of the connection `number`, which has ended, on another connection.
    fn resume(self: &Arc<Self>, state: &mut State, number: u64) -> io::Result<()> {
        let connection = match &state.connection {
            Some(connection) => connection.clone(),
            None => {
                let (stream, _) = open_connection(&self.config).map_err(io::Error::other)?;
                self.adopt(state, stream)?
            }
        };
        let (mut lines, mut jobs) = (Vec::new(), Vec::new());
        let mut cancels: Vec<u8> = Vec::new();
        for (id, job) in state.open.iter_mut().filter(|(_, job)| job.connection == number) {
            job.connection = connection.number;
            match &job.request {
                Some(line) => lines.extend_from_slice(line),
                None => jobs.push(Resumed { id: *id, seen: job.seen, started: job.started }),
            }
            cancels.extend(job.cancel.iter().flatten());
        }
        lines.extend(encode(&ShepherdRequest::Resume { jobs })?);
        // The dead shepherd may not have read the cancel requests.
        lines.extend(cancels);
        // Written under the lock, since all other requests for these jobs must come later. An error ends the
        // connection.
        let _ = self.write(&connection.stream, &lines);
        Ok(())
    }

    fn report_lost(&self, id: JobId, note: String, reason: String) {
        let events = vec![ExecEvent::Lost { id, note, reason }, ExecEvent::Released { id }];
        (self.report)(ExecutorReport::Events(events));
    }
}

/// Returns a connection on which the shepherd has sent its hello, and the jobs that it holds.
fn open_connection(config: &LocalConfig) -> Result<(UnixStream, Vec<HeldJob>), ExecError> {
    let dir = &config.state_dir;
    let failed = |source: io::Error| match is_timeout(&source) {
        true => ExecError::Silent { dir: dir.clone(), what_to_do: describe_silence(config) },
        false => ExecError::Start { dir: dir.clone(), source },
    };
    let log = dir.join(LOG);
    let before = log.metadata().map_or(0, |found| found.len());
    for _ in 0..ATTEMPTS {
        let stream = find_or_start(config).map_err(failed)?;
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

fn find_or_start(config: &LocalConfig) -> io::Result<UnixStream> {
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
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Names the process of a shepherd that does not respond, and says how to resolve that.
fn describe_silence(config: &LocalConfig) -> String {
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
