//! The executor of this machine: starts a shepherd, or finds the one that an earlier manager left,
//! and talks to it.
//!
//! Two threads serve a connection, so that neither a slow shepherd holds the manager up nor a busy
//! manager the shepherd: one writes what the manager asks for, one reads events. When a shepherd
//! dies its jobs are lost, which is told job by job, and the next request starts another.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;

use super::protocol::{Reply, Request, VERSION, decode, encode, encode_data};
use super::{
    ExecEvent, Executor, HeldJob, KillPolicy, SHEPHERD_ARGUMENT, SHEPHERD_LOST, StartJob, socket,
};
use crate::files::Dir;
use crate::open_files::OpenFiles;

/// A shepherd may go for lack of work while the manager comes: then the next one is asked.
const ATTEMPTS: u32 = 3;

/// Name of the shepherd's log in the state directory.
pub(crate) const LOG: &str = "shepherd.log";

/// Why jobs can't be run on this machine.
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
    /// The shepherd ended before it answered.
    #[error("the shepherd in {dir} does not answer: see {LOG} there")]
    NoAnswer {
        /// The state directory.
        dir: PathBuf,
    },
    /// The shepherd is of a build that this one can't work with.
    #[error(
        "the shepherd in {dir} refuses this manager: {reason}; cancel its jobs with the build that started them"
    )]
    Refused {
        /// The state directory.
        dir: PathBuf,
        /// What the shepherd said.
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
    /// How canceled jobs are killed.
    pub kill: KillPolicy,
    /// How long a shepherd without jobs waits for a manager.
    pub idle_time: Duration,
}

impl LocalConfig {
    /// For the running program, with the default times.
    pub fn new(state_dir: PathBuf) -> io::Result<Self> {
        Ok(Self {
            state_dir,
            program: vec![std::env::current_exe()?.into_os_string()],
            kill: KillPolicy::default(),
            idle_time: Duration::from_secs(5),
        })
    }
}

/// Runs jobs on this machine through a shepherd. Dropping it leaves shepherd and jobs alone.
pub struct LocalExecutor {
    kill: KillPolicy,
    held: Vec<HeldJob>,
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// What the two threads share.
struct Link {
    config: LocalConfig,
    on_event: Box<dyn Fn(ExecEvent) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where requests go, with the number of the connection.
    stream: Option<(u64, UnixStream)>,
    connections: u64,
    /// Jobs whose release hasn't come, with the connection that they were asked for on.
    open: BTreeMap<u64, u64>,
    closing: bool,
}

impl LocalExecutor {
    /// Finds or starts the shepherd of `config.state_dir`, which must exist. `on_event` is called on
    /// a thread of its own and must not wait for the executor.
    pub fn connect(
        mut config: LocalConfig,
        on_event: impl Fn(ExecEvent) + Send + Sync + 'static,
    ) -> Result<Self, ExecError> {
        let dir = config.state_dir.clone();
        let failed = |source| ExecError::Start { dir: dir.clone(), source };
        // The shepherd's working directory is another.
        config.state_dir = config.state_dir.canonicalize().map_err(failed)?;
        let kill = config.kill;
        let (stream, held) = open_connection(&config)?;
        let link = Arc::new(Link {
            config,
            on_event: Box::new(on_event),
            state: Mutex::new(State::default()),
        });
        link.adopt(&mut link.lock(), stream).map_err(failed)?;
        let (requests, receiver) = channel();
        let writer = Builder::new()
            .name("exec-requests".to_owned())
            .spawn(move || link.write_requests(&receiver))
            .map_err(failed)?;
        Ok(Self { kill, held, requests: Some(requests), writer: Some(writer) })
    }

    /// Kills the jobs that are canceled from now on in another way.
    pub fn set_kill(&mut self, kill: KillPolicy) {
        self.kill = kill;
    }

    /// The first signal to jobs that nobody asks for any more.
    pub fn term_signal(&self) -> i32 {
        self.kill.term_signal.number()
    }

    /// Asks the shepherd to exit as soon as it holds no job.
    pub fn shutdown(&self) {
        self.request(Request::Shutdown);
    }

    fn request(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The writer lives as long as the sender does.
            let _ = requests.send(request);
        }
    }
}

impl Executor for LocalExecutor {
    fn start(&self, job: StartJob) {
        self.request(Request::Start(Box::new(job)));
    }

    fn signal(&self, id: u64, signum: i32) {
        self.request(Request::Signal { id, signum });
    }

    fn cancel(&self, id: u64, first_signal: i32) {
        self.request(Request::Cancel { id, signum: first_signal, kill: self.kill });
    }

    fn stdin(&self, id: u64, rank: Option<u32>, data: Vec<u8>, eof: bool) {
        self.request(Request::Stdin { id, rank, data: encode_data(&data), eof });
    }

    fn tasks(&self, id: u64) {
        self.request(Request::Tasks { id });
    }

    fn ack(&self, id: u64) {
        self.request(Request::Ack { id });
    }

    fn held(&self) -> &[HeldJob] {
        &self.held
    }
}

impl Drop for LocalExecutor {
    /// Waits until what was asked for is sent.
    fn drop(&mut self) {
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

    fn write_requests(self: &Arc<Self>, requests: &Receiver<Request>) {
        for request in requests {
            let Err(note) = self.send(&request) else { continue };
            match request {
                Request::Start(job) => {
                    // Every other job would end like this one.
                    let reason = format!("no job can be started: {note}");
                    self.report_lost(job.id, note, reason);
                }
                Request::Tasks { id } => {
                    (self.on_event)(ExecEvent::Tasks { id, tasks: Vec::new() });
                }
                _ => {}
            }
        }
        let mut state = self.lock();
        state.closing = true;
        if let Some((_, stream)) = state.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends a request, to a new shepherd if the one there was is gone. The error is for the user.
    fn send(self: &Arc<Self>, request: &Request) -> Result<(), String> {
        let line = encode(request).map_err(|error| format!("cannot be described: {error}"))?;
        let mut state = self.lock();
        for _ in 0..ATTEMPTS {
            if state.stream.is_none() {
                let (stream, _) =
                    open_connection(&self.config).map_err(|error| error.to_string())?;
                self.adopt(&mut state, stream).map_err(|error| error.to_string())?;
            }
            let State { stream, open, .. } = &mut *state;
            if let Some((number, stream)) = stream
                && stream.write_all(&line).is_ok()
            {
                if let Request::Start(job) = request {
                    open.insert(job.id, *number);
                }
                return Ok(());
            }
            state.stream = None;
        }
        Err("the shepherd can't be reached".to_owned())
    }

    /// Makes `stream` the connection in use and begins to read from it.
    fn adopt(self: &Arc<Self>, state: &mut State, stream: UnixStream) -> io::Result<()> {
        let reader = BufReader::new(stream.try_clone()?);
        state.connections += 1;
        let number = state.connections;
        let link = Arc::clone(self);
        Builder::new().name("exec-events".to_owned()).spawn(move || {
            link.read_events(reader);
            link.closed(number);
        })?;
        state.stream = Some((number, stream));
        Ok(())
    }

    fn read_events(&self, reader: BufReader<UnixStream>) {
        for line in reader.split(b'\n') {
            let Ok(line) = line else { return };
            let Ok(Reply::Event(event)) = decode(&line) else {
                continue;
            };
            if let ExecEvent::Released { id, last: true } = event {
                self.lock().open.remove(&id);
            }
            (self.on_event)(event);
        }
    }

    /// The shepherd is gone, unless the executor itself closed the connection.
    fn closed(&self, number: u64) {
        let mut state = self.lock();
        if state.closing {
            return;
        }
        if state.stream.as_ref().is_some_and(|(current, _)| *current == number) {
            state.stream = None;
        }
        let lost: Vec<u64> =
            state.open.extract_if(.., |_, on| *on == number).map(|(id, _)| id).collect();
        drop(state);
        for id in lost {
            let note = "job is lost: the shepherd ended; processes of the job may still run";
            self.report_lost(id, note.to_owned(), SHEPHERD_LOST.to_owned());
        }
    }

    fn report_lost(&self, id: u64, note: String, reason: String) {
        (self.on_event)(ExecEvent::Lost { id, note, reason });
        (self.on_event)(ExecEvent::Released { id, last: true });
    }
}

/// A connection on which the shepherd has introduced itself, and the jobs that it holds.
fn open_connection(config: &LocalConfig) -> Result<(UnixStream, Vec<HeldJob>), ExecError> {
    let dir = &config.state_dir;
    for _ in 0..ATTEMPTS {
        let stream = find_or_start(config)
            .map_err(|source| ExecError::Start { dir: dir.clone(), source })?;
        match greet(&stream) {
            Ok(Reply::List { jobs }) => return Ok((stream, jobs)),
            Ok(Reply::Refused { reason }) => {
                return Err(ExecError::Refused { dir: dir.clone(), reason });
            }
            // It ended in between.
            _ => {}
        }
    }
    Err(ExecError::NoAnswer { dir: dir.clone() })
}

fn find_or_start(config: &LocalConfig) -> io::Result<UnixStream> {
    if let Some(stream) = socket::connect(&config.state_dir)? {
        return Ok(stream);
    }
    start_shepherd(config)?;
    socket::connect(&config.state_dir)?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
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
        .current_dir("/")
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .spawn()?;
    // Only so that it doesn't stay a zombie when it exits before the manager.
    Builder::new().name("exec-shepherd".to_owned()).spawn(move || shepherd.wait())?;
    Ok(())
}

/// The log of all shepherds of the state directory. It was made by one of its managers, or is made now.
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

/// Introduces the manager and returns the answer to its request for a list, or the refusal.
fn greet(stream: &UnixStream) -> io::Result<Reply> {
    let mut write = stream;
    write.write_all(&encode(&Request::Hello { version: VERSION })?)?;
    write.write_all(&encode(&Request::List)?)?;
    // Nothing else comes before the list, so nothing is lost with this reader.
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply = decode(&line)?;
        if !matches!(reply, Reply::Hello { .. }) {
            return Ok(reply);
        }
    }
}
