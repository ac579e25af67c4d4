//! `job-info.eventlog-watch`: a job's eventlog or output, first what is stored, then what comes.

use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::{Cred, Log};
use jobtap_core::job::JobId;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::UnboundedReceiver;

use super::hub::{Hub, Published};
use super::merge::{Position, Step};
use super::records::{MainLog, Records};
use super::services::{Path, Watch};
use crate::rpc::RpcError;
use crate::rpc::errno::{ENODATA, ENOENT, EPIPE};

/// The output of a running job is looked at again after this time, doubled up to [`SLOWEST_POLL`] while nothing comes.
const FASTEST_POLL: Duration = Duration::from_millis(10);
/// See [`FASTEST_POLL`].
const SLOWEST_POLL: Duration = Duration::from_millis(160);

/// Where the answers go; an error means that nobody reads them any more.
pub(super) trait Sink {
    /// Sends one answer.
    fn send(&self, answer: Value) -> impl Future<Output = Result<(), ()>> + Send;
}

/// One running watch.
struct Watcher<'a, S> {
    id: JobId,
    records: &'a Records,
    events: UnboundedReceiver<Published>,
    sink: &'a S,
}

/// Serves a watch to its end; the error returned ends the stream, ENODATA being the normal one.
pub(super) async fn serve<S: Sink>(
    records: &Records,
    hub: &Arc<Hub>,
    cred: Cred,
    request: &Watch,
    sink: &S,
) -> RpcError {
    // Subscribed before the store is read, so that nothing falls between the two.
    let events = hub.subscribe(request.id);
    let mut watcher = Watcher { id: request.id, records, events, sink };
    let outcome = watcher.run(cred, request).await;
    drop(watcher);
    hub.sweep(request.id);
    match outcome {
        Ok(()) => RpcError::new(ENODATA, ""),
        Err(error) => error,
    }
}

impl<S: Sink> Watcher<'_, S> {
    async fn run(&mut self, cred: Cred, request: &Watch) -> Result<(), RpcError> {
        let main = self.records.main_log(self.id, cred)?;
        match &request.path {
            Path::Main => self.eventlog(Log::Main, main).await,
            Path::Exec => self.eventlog(Log::Exec, main).await,
            Path::Output => self.file(main, "guest.output").await,
            Path::Input => self.file(main, "guest.input").await,
            Path::Unknown(_) if request.waitcreate => self.in_vain(&main).await,
            Path::Unknown(_) => Err(RpcError::new(ENOENT, "")),
        }
    }

    /// Waits for a log that nobody writes: as long as the job lives, somebody might.
    async fn in_vain(&mut self, main: &MainLog) -> Result<(), RpcError> {
        let mut over = main.is_inactive();
        while !over {
            let event = self.next_event().await?;
            over = event.log == Log::Main && event.entry.name == "clean";
        }
        Err(RpcError::new(ENOENT, ""))
    }

    /// Shows a log until its last event or until the job is over.
    async fn eventlog(&mut self, log: Log, main: MainLog) -> Result<(), RpcError> {
        let mut position = Position::default();
        let mut over = main.is_inactive();
        loop {
            let stored = match log {
                Log::Main if position.shown() == 0 => Some(main.text.clone()),
                _ => self.records.log(self.id, log)?,
            };
            if over && stored.is_none() {
                return Err(RpcError::new(ENOENT, ""));
            }
            for line in position.take_new(stored.as_deref().unwrap_or_default()) {
                self.show(line).await?;
                over = over || ends(log, line);
            }
            if over {
                return Ok(());
            }
            over = self.live(log, &mut position).await?;
            if over && position.shown() > 0 {
                return Ok(());
            }
        }
    }

    /// Shows live events. True when the job is over or the log complete, false when lines are missing.
    async fn live(&mut self, log: Log, position: &mut Position) -> Result<bool, RpcError> {
        loop {
            let event = self.next_event().await?;
            if event.log == log {
                match position.accept(event.seq) {
                    Step::Seen => {}
                    Step::Behind => return Ok(false),
                    Step::Show => {
                        let line = event.entry.encode();
                        self.show(&line).await?;
                        if ends(log, &line) {
                            return Ok(true);
                        }
                    }
                }
            }
            if event.log == Log::Main && event.entry.name == "clean" {
                return Ok(true);
            }
        }
    }

    /// Shows the job's input or output as its file grows, until the job is over.
    async fn file(&mut self, main: MainLog, key: &str) -> Result<(), RpcError> {
        let mut over = main.is_inactive();
        let mut started = over || main.has("start");
        let mut tail = None;
        let mut pause = FASTEST_POLL;
        loop {
            if started && tail.is_none() {
                tail = Tail::open(self.records, self.id, key).await;
            }
            // Whether the job was over before the file was read: then this was all of it.
            let last = over;
            let mut grew = false;
            while let Some(line) = next_line(&mut tail).await {
                self.show(&line).await?;
                grew = true;
            }
            if last {
                let missing = tail.is_none();
                return if missing { Err(RpcError::new(ENOENT, "")) } else { Ok(()) };
            }
            pause = if grew { FASTEST_POLL } else { (pause * 2).min(SLOWEST_POLL) };
            let waiting = async {
                if started { tokio::time::sleep(pause).await } else { std::future::pending().await }
            };
            tokio::select! {
                () = waiting => {}
                event = self.events.recv() => {
                    let event = event.ok_or_else(ended)?;
                    over = event.log == Log::Main && event.entry.name == "clean";
                    started = true;
                }
            }
        }
    }

    async fn next_event(&mut self) -> Result<Published, RpcError> {
        self.events.recv().await.ok_or_else(ended)
    }

    async fn show(&self, line: &str) -> Result<(), RpcError> {
        let sent = self.sink.send(json!({ "event": line })).await;
        sent.map_err(|()| RpcError::new(EPIPE, ""))
    }
}

fn ended() -> RpcError {
    super::replies::shutting_down()
}

/// Whether this line is a log's last one.
fn ends(log: Log, line: &str) -> bool {
    let name = match log {
        Log::Main => "clean",
        Log::Exec => "done",
    };
    line.contains(name)
        && serde_json::from_str::<Value>(line)
            .is_ok_and(|event| event.get("name").and_then(Value::as_str) == Some(name))
}

/// Reads whole lines of a growing file.
struct Tail {
    file: BufReader<tokio::fs::File>,
    partial: Vec<u8>,
}

impl Tail {
    async fn open(records: &Records, id: JobId, key: &str) -> Option<Self> {
        let file = tokio::fs::File::open(records.file(id, key)?).await.ok()?;
        Some(Self { file: BufReader::new(file), partial: Vec::new() })
    }
}

/// The next line that is there as a whole. A line that is still being written is kept for later.
async fn next_line(tail: &mut Option<Tail>) -> Option<String> {
    let tail = tail.as_mut()?;
    tail.file.read_until(b'\n', &mut tail.partial).await.ok()?;
    if tail.partial.last() != Some(&b'\n') {
        return None;
    }
    let line = String::from_utf8_lossy(&tail.partial).into_owned();
    tail.partial.clear();
    Some(line)
}
