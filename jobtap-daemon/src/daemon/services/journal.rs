//! `job-manager.events-journal`: the events of all jobs in one stream, first those of the past, then each
//! new one when it is durable. Tools that track the state of all jobs use it.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::Cred;
use jobtap_core::eventlog::{EventEntry, Name, decode_log};
use jobtap_core::job::JobId;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::records::{Records, unreadable};
use crate::rpc::errno::{ENODATA, EOVERFLOW};
use crate::rpc::services::job_manager::EventsJournal;
use crate::rpc::{RpcError, RpcResult};
use crate::store::StoredJob;

/// How many events may wait for a slow watcher. They are in the manager's memory, so the stream of a watcher
/// that is slower still is ended.
const WAITING_EVENTS: usize = 64 * 1024;
/// How many responses are prepared before the client reads them.
const WAITING_RESPONSES: usize = 64;

/// The events that a watcher wants.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    /// Whether past events of inactive jobs are wanted, too.
    pub full: bool,
    /// Only events of these names.
    pub allow: Option<Map<String, Value>>,
    /// No events of these names.
    pub deny: Option<Map<String, Value>>,
}

impl Wanted {
    /// The events that a request asks for.
    ///
    /// # Errors
    /// EPROTO for names of events that are not an object.
    pub(super) fn from_request(request: EventsJournal) -> Result<Self, RpcError> {
        let names = |key: &str, names| match names {
            None => Ok(None),
            Some(Value::Object(names)) => Ok(Some(names)),
            Some(_) => {
                Err(RpcError::proto(format!("job-manager.events {key} should be an object")))
            }
        };
        let EventsJournal { full, allow, deny } = request;
        Ok(Self { full, allow: names("allow", allow)?, deny: names("deny", deny)? })
    }

    fn accepts(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|names| names.contains_key(name))
            && !self.deny.as_ref().is_some_and(|names| names.contains_key(name))
    }
}

/// An event on its way to the watchers.
#[derive(Debug, Clone)]
pub(super) struct Posted {
    pub(super) id: JobId,
    /// Its number in the job's eventlog; `None` for an event that is not logged.
    seq: Option<u64>,
    entry: Arc<EventEntry>,
}

struct Watcher {
    events: Sender<Posted>,
    lost: Arc<AtomicBool>,
}

/// The watchers of all jobs.
#[derive(Default)]
pub(in crate::daemon) struct Journal {
    watchers: Mutex<Vec<Watcher>>,
    /// The number of watchers, so that without any of them an event costs no lock.
    listeners: AtomicUsize,
    /// The number of events since the start.
    published: AtomicU64,
}

impl Journal {
    /// Sends an event to all watchers.
    pub(in crate::daemon) fn publish(&self, id: JobId, seq: Option<u64>, entry: &Arc<EventEntry>) {
        self.published.fetch_add(1, Ordering::Relaxed);
        if self.listeners.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut watchers = self.lock();
        watchers.retain(|watcher| {
            let posted = Posted { id, seq, entry: Arc::clone(entry) };
            let sent = watcher.events.try_send(posted);
            watcher.lost.store(sent.is_err(), Ordering::Release);
            sent.is_ok()
        });
        self.listeners.store(watchers.len(), Ordering::Release);
    }

    /// Counts events that nothing watches, which were not published.
    pub(in crate::daemon) fn count(&self, events: u64) {
        self.published.fetch_add(events, Ordering::Relaxed);
    }

    /// Whether there are watchers.
    pub(in crate::daemon) fn is_watched(&self) -> bool {
        self.listeners() != 0
    }

    /// The number of events since the start.
    #[cfg(feature = "http")]
    pub(in crate::daemon) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// The number of watchers.
    pub(in crate::daemon) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Acquire)
    }

    /// Ends all streams, since the manager ends.
    pub(in crate::daemon) fn close(&self) {
        self.lock().clear();
        self.listeners.store(0, Ordering::Release);
    }

    /// Returns all events from now on, and a flag that says, once they end, whether some were lost. Earlier events are
    /// in the engine and, once a turn that is requested now is durable, in the store.
    pub(super) fn watch(&self) -> (Receiver<Posted>, Arc<AtomicBool>) {
        let (sender, events) = channel(WAITING_EVENTS);
        let lost = Arc::new(AtomicBool::new(false));
        let mut watchers = self.lock();
        // Removes watchers whose clients have left since the last event.
        watchers.retain(|watcher| !watcher.events.is_closed());
        watchers.push(Watcher { events: sender, lost: Arc::clone(&lost) });
        self.listeners.store(watchers.len(), Ordering::Release);
        (events, lost)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins a stream. Its last response is an error: ENODATA when the manager ends.
pub(super) fn stream(
    journal: &Journal,
    engine: EngineHandle,
    records: Records,
    cred: Cred,
    wanted: Wanted,
) -> Receiver<RpcResult> {
    // Before the past is read, so that no event is missed between past and present.
    let (events, lost) = journal.watch();
    let (responses, receiver) = channel(WAITING_RESPONSES);
    let stream =
        Stream { records, cred, wanted: Arc::new(wanted), responses, shown: HashMap::new() };
    tokio::spawn(stream.run(engine, events, lost));
    receiver
}

struct Stream {
    records: Records,
    cred: Cred,
    wanted: Arc<Wanted>,
    responses: Sender<RpcResult>,
    /// How many events of each job's eventlog were sent as its past.
    shown: HashMap<JobId, u64>,
}

/// The client has left.
struct Gone;

/// Why there are no more events.
pub(super) fn end(lost: &AtomicBool) -> RpcError {
    if lost.load(Ordering::Acquire) { too_slow() } else { RpcError::new(ENODATA, "") }
}

/// The end of a stream whose client does not keep up.
pub(super) fn too_slow() -> RpcError {
    RpcError::new(EOVERFLOW, "events were lost: they came faster than they were read")
}

impl Stream {
    async fn run(
        mut self,
        engine: EngineHandle,
        mut events: Receiver<Posted>,
        lost: Arc<AtomicBool>,
    ) {
        if let Err(error) = self.past(engine).await {
            let _ = self.responses.send(Err(error)).await;
            return;
        }
        // Marks the place where the past ends.
        if self.send(json!({ "id": EventsJournal::NO_JOB, "events": [] })).await.is_err() {
            return;
        }
        loop {
            tokio::select! {
                () = self.responses.closed() => return,
                event = events.recv() => match event {
                    Some(event) if self.present(&event).await.is_ok() => {}
                    Some(_) => return,
                    None => break,
                }
            }
        }
        let _ = self.responses.send(Err(end(&lost))).await;
    }

    async fn past(&mut self, engine: EngineHandle) -> Result<(), RpcError> {
        if self.wanted.full {
            // Events that were not published, since nothing was watched then, are durable after this.
            answered(engine.read(|_| Ok(()))).await?;
            return self.past_of_all().await;
        }
        let jobs = engine.read(|engine| Ok(engine.active_jobs()));
        for id in answered(jobs).await? {
            let log = match self.records.main_log_for(id, self.cred) {
                Ok(log) => log,
                // The job was purged in between.
                Err(_) => continue,
            };
            let text = |name| self.records.value(id, name);
            let (jobspec, resources) = (text("jobspec")?, text("R")?);
            self.shown.insert(id, log.events.len() as u64);
            if let Some(response) = job_response(&self.wanted, id, &log.events, jobspec, resources)
                && self.send(response).await.is_err()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the whole store, on a thread that may block.
    async fn past_of_all(&mut self) -> Result<(), RpcError> {
        let (records, wanted) = (self.records.clone(), Arc::clone(&self.wanted));
        let responses = self.responses.clone();
        let scan = tokio::task::spawn_blocking(move || {
            let mut shown = HashMap::new();
            let names = |name: &str| matches!(name, "eventlog" | "jobspec" | "R");
            let scanned = records.store().scan_jobs(&names, &mut |job| {
                let Some((events, response)) = stored_response(&wanted, &job) else {
                    return ControlFlow::Continue(());
                };
                shown.insert(JobId::new(job.id), events);
                match response.map(|response| responses.blocking_send(Ok(response))) {
                    Some(Err(_)) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            scanned.map(|()| shown).map_err(unreadable)
        });
        self.shown = scan.await.map_err(unreadable)??;
        Ok(())
    }

    async fn present(&mut self, posted: &Posted) -> Result<(), Gone> {
        let Posted { id, seq, entry } = posted;
        let past = self.shown.get(id).copied().unwrap_or(0);
        if seq.is_some_and(|seq| seq < past) || !self.wanted.accepts(&entry.name) {
            return Ok(());
        }
        let with = |event: Name, key: &str| {
            let wanted = entry.name == event;
            wanted.then(|| self.records.value(*id, key).ok().flatten()).flatten()
        };
        let (jobspec, resources) = (with(Name::Submit, "jobspec"), with(Name::Alloc, "R"));
        let events = std::slice::from_ref(&**entry);
        match job_response(&self.wanted, *id, events, jobspec, resources) {
            Some(response) => self.send(response).await,
            None => Ok(()),
        }
    }

    async fn send(&self, response: Value) -> Result<(), Gone> {
        self.responses.send(Ok(response)).await.map_err(|_| Gone)
    }
}

/// The number of a stored job's events, and the response about them; none for a job that can't be
/// read, which the next start will set aside.
fn stored_response(wanted: &Wanted, job: &StoredJob) -> Option<(u64, Option<Value>)> {
    let text = |name| job.get(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let events = decode_log(text("eventlog")?).ok()?;
    let owned = |name| text(name).map(str::to_owned);
    let response = job_response(wanted, JobId::new(job.id), &events, owned("jobspec"), owned("R"));
    Some((events.len() as u64, response))
}

/// The response about these events of a job; none when no event is wanted.
fn job_response(
    wanted: &Wanted,
    id: JobId,
    events: &[EventEntry],
    jobspec: Option<String>,
    resources: Option<String>,
) -> Option<Value> {
    let events: Vec<&EventEntry> = events.iter().filter(|e| wanted.accepts(&e.name)).collect();
    if events.is_empty() {
        return None;
    }
    let mut response: BTreeMap<&str, Value> = BTreeMap::new();
    let has = |name: &Name| events.iter().any(|event| event.name == *name);
    for (event, key, text) in [(Name::Submit, "jobspec", jobspec), (Name::Alloc, "R", resources)] {
        if let Some(text) = text.filter(|_| has(&event))
            && let Ok(value) = serde_json::from_str(&text)
        {
            response.insert(key, value);
        }
    }
    let events: Vec<Value> = events.into_iter().filter_map(as_json).collect();
    response.insert("id", json!(id));
    response.insert("events", json!(events));
    Some(json!(response))
}

fn as_json(event: &EventEntry) -> Option<Value> {
    serde_json::from_str(&event.encode()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &'static str) -> Arc<EventEntry> {
        let timestamp = jobtap_core::job::Timestamp::from_secs(1.5);
        Arc::new(EventEntry { timestamp, name: name.into(), context: None })
    }

    fn names(names: &[&str]) -> Option<Map<String, Value>> {
        Some(names.iter().map(|name| ((*name).to_owned(), json!(1))).collect())
    }

    #[test]
    fn allowed_and_not_denied() {
        let wanted = Wanted { allow: names(&["a", "b"]), deny: names(&["b"]), full: false };
        let accepted: Vec<_> = ["a", "b", "c"].into_iter().filter(|n| wanted.accepts(n)).collect();
        assert_eq!(accepted, ["a"]);
        assert!(Wanted::default().accepts("x"));
    }

    #[test]
    fn jobspec_comes_with_submit_and_r_with_alloc() {
        let (submit, alloc) = (event("submit"), event("alloc"));
        let response = |events: &[EventEntry]| {
            let text = |text: &str| Some(text.to_owned());
            job_response(&Wanted::default(), JobId::new(7), events, text("{}"), text("[]")).unwrap()
        };
        let both = response(&[(*submit).clone(), (*alloc).clone()]);
        assert_eq!(
            (&both["jobspec"], &both["R"], &both["id"]),
            (&json!({}), &json!([]), &json!(7))
        );
        assert_eq!(both["events"][0], json!({"timestamp": 1.5, "name": "submit"}));
        assert!(response(&[(*alloc).clone()]).get("jobspec").is_none());
    }

    #[test]
    fn a_follower_that_does_not_read_is_cut_off_and_told() {
        let journal = Journal::default();
        let (mut events, lost) = journal.watch();
        for seq in 0..=WAITING_EVENTS as u64 {
            journal.publish(JobId::new(1), Some(seq), &event("x"));
        }
        assert!(lost.load(Ordering::Acquire));
        let mut read = 0;
        while events.try_recv().is_ok() {
            read += 1;
        }
        assert_eq!(read, WAITING_EVENTS);
        assert_eq!(journal.listeners.load(Ordering::Acquire), 0);
    }
}
