//! `job-info.eventlog-watch`: a job's eventlog or output, first what is stored, then what is added.

mod merge;

use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::{Cred, JobLog};
use jobtap_core::eventlog::Name;
use jobtap_core::job::JobId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use self::merge::{Position, Step};
use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::records::{MainLog, Records};
use crate::daemon::watchers::hub::{Heard, Hub, Subscription};
use crate::rpc::RpcError;
use crate::rpc::errno::{EINVAL, EIO, ENODATA, ENOENT, EPIPE};
use crate::rpc::services::job_info as wire;
use crate::store::{GuestFiles, Key};

/// The output of a running job is read again after this time, which is doubled up to [`SLOWEST_POLL`] while
/// no new output comes.
const FASTEST_POLL: Duration = Duration::from_millis(10);
/// See [`FASTEST_POLL`].
const SLOWEST_POLL: Duration = Duration::from_millis(160);

/// Where the responses go. An error means that the client has left.
pub(in crate::daemon) trait Sink {
    /// Sends one response, which is JSON without line breaks.
    fn send_text(&self, answer: &str) -> impl Future<Output = Result<(), ()>> + Send;
}

/// A request for an eventlog as it grows.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) struct EventlogWatch {
    /// The job.
    id: JobId,
    /// Which eventlog.
    path: Path,
    /// Whether to wait for a log that does not exist yet.
    waitcreate: bool,
    /// Whether a response without a line follows the lines that exist already.
    sentinel: bool,
    /// Whether many lines come in one response.
    batch: bool,
    /// The names of the events that the client wants; all if it is empty.
    only: Vec<String>,
}

/// The eventlogs that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Path {
    /// `eventlog`: the job's life.
    Main,
    /// `guest.exec.eventlog`: its execution.
    Exec,
    /// `guest.output`: what its tasks print.
    Output,
    /// `guest.input`: their input.
    Input,
    /// A name that no log has.
    Unknown,
}

impl From<wire::Watch> for EventlogWatch {
    fn from(request: wire::Watch) -> Self {
        let path = match request.path.as_str() {
            "eventlog" => Path::Main,
            "guest.exec.eventlog" => Path::Exec,
            "guest.output" => Path::Output,
            "guest.input" => Path::Input,
            _ => Path::Unknown,
        };
        let flag = |flag| request.flags & flag != 0;
        let waitcreate = flag(wire::Watch::WAITCREATE);
        let sentinel = flag(wire::Watch::INITIAL_SENTINEL);
        let wire::Watch { id, batch, only, .. } = request;
        Self { id, path, waitcreate, sentinel, batch, only }
    }
}

/// A watch.
struct Watcher<'a, S> {
    id: JobId,
    cred: Cred,
    records: &'a Records,
    events: Subscription,
    sink: &'a S,
    /// Whether many lines are sent in one response.
    batch: bool,
    /// The names of the events that are sent; all if it is empty.
    only: &'a [String],
    /// Whether a response without a line has yet to follow the lines that existed already.
    sentinel_due: bool,
}

/// Why no more new events are awaited.
enum Live {
    /// The job is inactive or the log is complete.
    Over,
    /// Lines are missing, which have to be read from the store. `over`: the job is inactive.
    Behind { over: bool },
}

/// Serves a watch to its end, and returns the error that ends the stream: ENODATA if it did not fail.
pub(in crate::daemon) async fn serve<S: Sink>(
    records: &Records,
    hub: &Arc<Hub>,
    engine: &EngineHandle,
    cred: Cred,
    request: &EventlogWatch,
    sink: &S,
) -> RpcError {
    // Registered before the store is read, so that no event is missed in between.
    let events = hub.subscribe(request.id);
    // Events that were not published, since nothing was watched then, are durable after this.
    if let Err(error) = answered(engine.read(|_| Ok(()))).await {
        return error;
    }
    let EventlogWatch { id, batch, sentinel: sentinel_due, .. } = *request;
    let only = &request.only;
    let mut watcher = Watcher { id, cred, records, events, sink, batch, only, sentinel_due };
    match watcher.run(request).await {
        Ok(()) => RpcError::new(ENODATA, ""),
        Err(error) => error,
    }
}

impl<S: Sink> Watcher<'_, S> {
    async fn run(&mut self, request: &EventlogWatch) -> Result<(), RpcError> {
        let main = self.records.main_log_for(self.id, self.cred)?;
        match &request.path {
            _ if main.is_array => self.of_array(request, &main).await,
            Path::Main => self.eventlog(JobLog::Main, main).await,
            Path::Exec => self.eventlog(JobLog::Exec, main).await,
            Path::Output => self.file(main, Key::OUTPUT).await,
            Path::Input => self.file(main, "guest.input").await,
            Path::Unknown if request.waitcreate => self.in_vain(&main).await,
            Path::Unknown => Err(RpcError::new(ENOENT, "")),
        }
    }

    /// Sends the eventlog of an array, if the client wants to know where it ends so far: new events of arrays aren't
    /// published.
    async fn of_array(&mut self, request: &EventlogWatch, main: &MainLog) -> Result<(), RpcError> {
        if request.path == Path::Main && request.sentinel {
            for line in main.text.split_inclusive('\n') {
                if self.wants(&name_of(line)) {
                    self.show(line).await?;
                }
            }
            self.sentinel().await?;
        }
        let id = self.id;
        let text = format!("{id} is a job array: its events aren't watched; use job status {id}");
        Err(RpcError::new(EINVAL, text))
    }

    /// Waits for a log that does not exist, which may be created as long as the job is active.
    async fn in_vain(&mut self, main: &MainLog) -> Result<(), RpcError> {
        let mut over = main.is_inactive();
        self.sentinel().await?;
        while !over {
            over = match self.heard().await? {
                Heard::Event(event) => event.log == JobLog::Main && event.entry.name == Name::Clean,
                Heard::Missed => self.is_over()?,
            };
        }
        Err(RpcError::new(ENOENT, ""))
    }

    /// Sends a log until its last event or until the job is inactive.
    async fn eventlog(&mut self, log: JobLog, main: MainLog) -> Result<(), RpcError> {
        let mut position = Position::default();
        let mut over = main.is_inactive();
        loop {
            let stored = match log {
                JobLog::Main if position.shown() == 0 => Some(main.text.clone()),
                _ => self.records.log(self.id, log)?,
            };
            if over && stored.is_none() {
                return self.missing();
            }
            for line in position.take_new(stored.as_deref().unwrap_or_default()) {
                let name = name_of(line);
                if self.wants(&name) {
                    self.show(line).await?;
                }
                over = over || ends(log, &name);
            }
            self.sentinel().await?;
            if over {
                return Ok(());
            }
            over = match self.live(log, &mut position).await? {
                Live::Over if position.shown() > 0 => return Ok(()),
                Live::Over => true,
                Live::Behind { over } => over,
            };
        }
    }

    /// Sends new events until the job is inactive, the log is complete, or lines are missing.
    async fn live(&mut self, log: JobLog, position: &mut Position) -> Result<Live, RpcError> {
        loop {
            let event = match self.heard().await? {
                Heard::Event(event) => event,
                Heard::Missed => return Ok(Live::Behind { over: self.is_over()? }),
            };
            if event.log == log {
                match position.accept(event.seq) {
                    Step::Seen => {}
                    Step::Behind => return Ok(Live::Behind { over: false }),
                    Step::Show => {
                        if self.wants(&event.entry.name) {
                            self.show(&event.entry.encode()).await?;
                        }
                        if ends(log, &event.entry.name) {
                            return Ok(Live::Over);
                        }
                    }
                }
            }
            if event.log == JobLog::Main && event.entry.name == Name::Clean {
                return Ok(Live::Over);
            }
        }
    }

    /// Sends the job's input or output as its file grows, until the job is inactive. If the store has a value in place
    /// of the file, that is sent as a whole.
    async fn file(&mut self, main: MainLog, key: &str) -> Result<(), RpcError> {
        let mut over = main.is_inactive();
        let mut started = over || main.has(&Name::Start);
        let no_file = || RpcError::new(ENOENT, "");
        let mut tail = Tail::new(self.records.file(self.id, key).ok_or_else(no_file)?);
        let mut pause = FASTEST_POLL;
        let simulated = !over && self.is_simulated()?;
        loop {
            // If the job was over before the file was read, this was all of it.
            let last = over;
            let mut grew = false;
            while started && let Some(lines) = tail.next().await? {
                self.show_all(&lines).await?;
                grew = true;
            }
            if started
                && !tail.found
                && let Some(text) = self.records.value(self.id, key)?
            {
                self.show_all(&text).await?;
                return self.sentinel().await;
            }
            self.sentinel().await?;
            // There is no file and there will be none: as in Flux, the client gets an error once the job has started.
            if simulated && started && !last {
                self.missing()?;
            }
            if last {
                return if tail.found { Ok(()) } else { self.missing() };
            }
            pause = if grew { FASTEST_POLL } else { (pause * 2).min(SLOWEST_POLL) };
            let waiting = async {
                if started { tokio::time::sleep(pause).await } else { std::future::pending().await }
            };
            tokio::select! {
                () = waiting => {}
                heard = self.events.next() => {
                    over = match heard.ok_or_else(ended)? {
                        Heard::Event(event) => {
                            event.log == JobLog::Main && event.entry.name == Name::Clean
                        }
                        Heard::Missed => self.is_over()?,
                    };
                    started = true;
                }
            }
        }
    }

    /// Whether the job has no tasks, since its execution is simulated.
    fn is_simulated(&self) -> Result<bool, RpcError> {
        let jobspec = self.records.value(self.id, "jobspec")?.unwrap_or_default();
        let jobspec: Value = serde_json::from_str(&jobspec).unwrap_or_default();
        Ok(jobspec.pointer("/attributes/system/exec/test").is_some())
    }

    /// Ends the watch of a log that an inactive job doesn't have. As in Flux, that counts as a log without events if
    /// the job never started, since it could have had one.
    fn missing(&self) -> Result<(), RpcError> {
        let started = self.records.main_log_for(self.id, self.cred)?.has(&Name::Start);
        if started { Err(RpcError::new(ENOENT, "")) } else { Ok(()) }
    }

    async fn heard(&mut self) -> Result<Heard, RpcError> {
        self.events.next().await.ok_or_else(ended)
    }

    /// Whether the job is inactive according to the store, for a watcher that missed events.
    fn is_over(&self) -> Result<bool, RpcError> {
        Ok(self.records.main_log_for(self.id, self.cred)?.is_inactive())
    }

    /// Whether the client wants the events of this name.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// Sends lines, each of which is JSON.
    async fn show_all(&self, lines: &str) -> Result<(), RpcError> {
        if self.batch {
            return self.send(&batch(lines)).await;
        }
        for line in lines.split_inclusive('\n') {
            self.show(line).await?;
        }
        Ok(())
    }

    async fn show(&self, line: &str) -> Result<(), RpcError> {
        match self.batch {
            true => self.send(&batch(line)).await,
            false => self.send(&json!({ "event": line }).to_string()).await,
        }
    }

    /// Tells a client that wants to know it, once, that the lines that existed already have been sent.
    async fn sentinel(&mut self) -> Result<(), RpcError> {
        match std::mem::take(&mut self.sentinel_due) {
            true => self.send("{}").await,
            false => Ok(()),
        }
    }

    async fn send(&self, answer: &str) -> Result<(), RpcError> {
        self.sink.send_text(answer).await.map_err(|()| RpcError::new(EPIPE, ""))
    }
}

/// Returns a response with all of these lines as they are. They are JSON and have no other line breaks, so nothing has
/// to be parsed or escaped: the output of a job may be long.
fn batch(lines: &str) -> String {
    let mut response = String::with_capacity(lines.len() + 16);
    response.push_str("{\"events\":[");
    for (at, line) in lines.lines().enumerate() {
        if at > 0 {
            response.push(',');
        }
        response.push_str(line);
    }
    response.push_str("]}");
    response
}

fn ended() -> RpcError {
    crate::daemon::engine::replies::shutting_down()
}

/// The name of the event in a line; empty if the line has none.
fn name_of(line: &str) -> Cow<'_, str> {
    #[derive(Default, Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    serde_json::from_str::<Named<'_>>(line).unwrap_or_default().name
}

/// Whether the event of this name is the last one of its log.
fn ends(log: JobLog, name: &str) -> bool {
    name == match log {
        JobLog::Main => &*Name::Clean,
        JobLog::Exec => "done",
    }
}

/// Reads a growing file by whole lines. The file is open only while it is read, since more clients may wait
/// for output than files may be open.
struct Tail {
    path: PathBuf,
    read: u64,
    found: bool,
}

/// About this many bytes are read at once.
const PIECE: usize = 256 * 1024;

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self { path, read: 0, found: false }
    }

    /// Returns the complete lines beyond those read before, or the first of them.
    async fn next(&mut self) -> Result<Option<String>, RpcError> {
        let (path, from) = (self.path.clone(), self.read);
        let read = tokio::task::spawn_blocking(move || whole_lines(&path, from)).await;
        match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(lines) => {
                self.found = true;
                self.read += lines.len() as u64;
                let text = Some(lines).filter(|lines| !lines.is_empty());
                Ok(text)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }
}

/// Reads complete lines of the file from this byte on. Each of them must be JSON.
fn whole_lines(path: &std::path::Path, from: u64) -> io::Result<String> {
    let mut file = GuestFiles::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut lines = vec![0; PIECE];
    let mut read = 0;
    let whole = loop {
        let more = file.read(lines.get_mut(read..).unwrap_or_default())?;
        read += more;
        let found = lines.get(..read).unwrap_or_default();
        match memchr::memrchr(b'\n', found) {
            Some(end) if more == 0 || read == lines.len() => break end + 1,
            // A line that is still being written is read again when it is complete.
            None if more == 0 => break 0,
            // The line is longer than what is read at once.
            None if read == lines.len() => lines.resize(2 * read, 0),
            _ => {}
        }
    };
    lines.truncate(whole);
    let lines = String::from_utf8(lines).map_err(|_| damaged(from))?;
    let mut at = from;
    for line in lines.split_inclusive('\n') {
        serde_json::from_str::<IgnoredAny>(line).map_err(|_| damaged(at))?;
        at += line.len() as u64;
    }
    Ok(lines)
}

fn damaged(at: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("what begins at byte {at} is no event"))
}

fn unreadable(error: &io::Error) -> RpcError {
    let errno = error.raw_os_error().unwrap_or(EIO);
    RpcError::new(errno, format!("the job's file can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watched_paths_are_those_of_flux() {
        let path = |name: &str| EventlogWatch::from(wire::Watch::new(JobId::new(1), name, 0)).path;
        assert_eq!(path("eventlog"), Path::Main);
        assert_eq!(path("guest.exec.eventlog"), Path::Exec);
        assert_eq!(path("guest.output"), Path::Output);
        assert_eq!(path("nosuch"), Path::Unknown);
    }
}
