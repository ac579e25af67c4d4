//! The connection to the shepherd, across shepherds that end.
//!
//! Two threads serve a connection, so that a slow shepherd does not delay the manager and a busy manager does not delay
//! the shepherd: one writes requests, one reads events. When a shepherd dies, another process takes its place, or
//! another shepherd is started. The manager continues its jobs there, and that shepherd reports which of them are lost.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;

use super::open_job::OpenJob;
use super::shepherd::{describe_silence, is_timeout, open_connection};
use super::{ATTEMPTS, ExecError, LocalConfig};
use crate::exec::protocol::{Resumed, ShepherdMessage, ShepherdRequest, decode_message, encode};
use crate::exec::{ExecutorReport, JobCommand, SHEPHERD_LOST};

/// The number of bytes of events that are read at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// The minimum number of running jobs at which their events are gathered. With fewer jobs nothing is delayed, since the
/// next job may be waiting for the resources of the one that has ended.
const MANY: usize = 16;

/// How long events of [`MANY`] jobs are gathered. Each report costs the manager a turn of its engine and a sync of its
/// disk, and the jobs that it then starts cost the shepherd a sync of its own.
const GATHERING: Duration = Duration::from_millis(2);

/// Requests on their way to the shepherd.
pub(super) enum Outgoing {
    /// One that another shepherd gets if the present one ends before it has read it.
    One(ShepherdRequest),
    /// Requests that may be lost with their shepherd: the manager asks for a job back whose turn hasn't come when the one
    /// before it ends, and jobs that have ended count as acknowledged for another shepherd.
    Expendable(Vec<ShepherdRequest>),
}

impl Outgoing {
    /// Whether a request may be lost with its shepherd.
    pub(super) fn is_expendable(request: &ShepherdRequest) -> bool {
        match request {
            ShepherdRequest::Start(job) => job.after.is_some(),
            ShepherdRequest::Job(command) => matches!(command, JobCommand::Ack { .. }),
            _ => false,
        }
    }
}

/// What takes the messages to the manager.
pub(super) type Report = Box<dyn Fn(ExecutorReport) + Send + Sync>;

/// The state that the two threads share.
pub(super) struct Link {
    config: LocalConfig,
    report: Report,
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
    /// The jobs that the manager has asked back, which the shepherd has to answer, by the number of the connection.
    recalled: BTreeMap<JobId, u64>,
    /// Whether the shepherd was asked to exit. Then none takes its place.
    shut_down: bool,
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

impl Link {
    pub(super) fn new(config: LocalConfig, report: Report) -> Self {
        Self {
            config,
            report,
            closing: AtomicBool::new(false),
            state: Mutex::new(State::default()),
            closed: Condvar::new(),
        }
    }

    /// Begins to read from the first connection.
    pub(super) fn begin(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        self.adopt(&mut self.lock(), stream)?;
        Ok(())
    }

    /// No more requests follow than those that are written already.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Waits at most `limit` until the shepherd has closed the connection, and lets none take its place. Returns whether
    /// it has.
    pub(super) fn wait_for_last_end(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        state.shut_down = true;
        let connected = |state: &mut State| state.connection.is_some();
        let waited = self.closed.wait_timeout_while(state, limit, connected);
        waited.unwrap_or_else(PoisonError::into_inner).0.connection.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the requests until there are no more of them.
    pub(super) fn write_requests(self: &Arc<Self>, outgoing: &Receiver<Outgoing>) {
        for outgoing in outgoing {
            let request = match outgoing {
                Outgoing::One(request) => request,
                Outgoing::Expendable(requests) => {
                    self.send_together(&requests);
                    continue;
                }
            };
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
                ShepherdRequest::Job(JobCommand::Recall { id }) => self.report_recalled(id),
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

    /// Sends requests with one system call.
    fn send_together(self: &Arc<Self>, requests: &[ShepherdRequest]) {
        let (mut lines, mut connection) = (Vec::new(), None);
        for request in requests {
            if let Ok(line) = encode(request) {
                connection = self.connection_for(request, &line).ok();
                lines.extend(line);
            }
        }
        if let Some(Connection { number, stream }) = connection
            && self.write(&stream, &lines).is_err()
        {
            self.lock().connection.take_if(|current| current.number == number);
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
            // It counts as open when it is begun: another shepherd must not start it before its turn.
            ShepherdRequest::Start(job) if job.after.is_some() => {}
            ShepherdRequest::Start(job) => {
                state.open.insert(job.id, OpenJob::new(job, line).on(connection.number));
            }
            ShepherdRequest::Job(JobCommand::Recall { id }) => {
                state.recalled.insert(*id, connection.number);
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
            link.read_events(number, reader);
            link.closed(number);
        })?;
        let connection = Connection { number, stream: Arc::new(stream) };
        state.connection = Some(connection.clone());
        Ok(connection)
    }

    fn read_events(&self, number: u64, mut reader: BufReader<UnixStream>) {
        let (mut line, mut events) = (Vec::new(), Vec::new());
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            match decode_message(&line) {
                Ok(ShepherdMessage::Event(event)) => events.push(event),
                Ok(ShepherdMessage::Tasks { id, tasks }) => {
                    self.report_events(number, &mut events);
                    (self.report)(ExecutorReport::Tasks { id, tasks });
                }
                _ => {}
            }
            line.clear();
            // Events that arrived together are reported together, so that the manager isn't woken for the first of them
            // alone.
            if !reader.buffer().contains(&b'\n') && self.report_events(number, &mut events) >= MANY
            {
                thread::sleep(GATHERING);
            }
        }
    }

    /// Reports events of this connection, and returns the number of open jobs.
    fn report_events(&self, number: u64, events: &mut Vec<ExecEvent>) -> usize {
        let mut state = self.lock();
        for event in &*events {
            if let ExecEvent::Begun { id } | ExecEvent::Recalled { id } = event {
                state.recalled.remove(id);
            }
            if let ExecEvent::Begun { id } = event {
                state.open.entry(*id).or_insert_with(|| OpenJob::begun(number));
            } else if let ExecEvent::Released { id } = event {
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
        let any = state.open.values().any(|job| job.connection == number)
            || state.recalled.values().any(|connection| *connection == number);
        if !any || !state.shut_down && self.resume(&mut state, number).is_ok() {
            return;
        }
        let lost: Vec<JobId> = state
            .open
            .extract_if(.., |_, job| job.connection == number)
            .map(|(id, _)| id)
            .collect();
        let unanswered: Vec<JobId> = state
            .recalled
            .extract_if(.., |_, connection| *connection == number)
            .map(|(id, _)| id)
            .collect();
        // Reported without the lock, so that a slow callback does not delay requests.
        drop(state);
        unanswered.into_iter().for_each(|id| self.report_recalled(id));
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
        // The dead shepherd may not have read these requests.
        lines.extend(cancels);
        for (id, of) in state.recalled.iter_mut().filter(|(_, of)| **of == number) {
            *of = connection.number;
            lines.extend(encode(&ShepherdRequest::Job(JobCommand::Recall { id: *id }))?);
        }
        // Written under the lock, since all other requests for these jobs must come later. An error ends the
        // connection.
        let _ = self.write(&connection.stream, &lines);
        Ok(())
    }

    /// Reports that no shepherd has begun a job. If one has, which is gone, the next one refuses to start the job.
    fn report_recalled(&self, id: JobId) {
        (self.report)(ExecutorReport::Events(vec![ExecEvent::Recalled { id }]));
    }

    fn report_lost(&self, id: JobId, note: String, reason: String) {
        let events = vec![ExecEvent::Lost { id, note, reason }, ExecEvent::Released { id }];
        (self.report)(ExecutorReport::Events(events));
    }
}
