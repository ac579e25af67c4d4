//! `job-manager.events-journal`: the events of all jobs in one stream, first those of the past, then each
//! new one when it is durable. Tools that track the state of all jobs use it.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use jobtap_core::engine::Cred;
use jobtap_core::eventlog::{EventEntry, Name, decode_log};
use jobtap_core::job::JobId;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::records::{Records, unreadable};
use crate::daemon::watchers::journal::{JournalWatch, JournalWatchers, Posted};
use crate::rpc::errno::{ENODATA, EOVERFLOW};
use crate::rpc::services::job_manager::EventsJournal;
use crate::rpc::{RpcError, RpcResult};
use crate::store::StoredJob;

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

/// Begins a stream. Its last response is an error: ENODATA when the manager ends.
pub(super) fn stream(
    journal: &JournalWatchers,
    engine: EngineHandle,
    records: Records,
    cred: Cred,
    wanted: Wanted,
) -> Receiver<RpcResult> {
    // Before the past is read, so that no event is missed between past and present.
    let events = journal.watch();
    let (responses, receiver) = channel(WAITING_RESPONSES);
    let stream =
        Stream { records, cred, wanted: Arc::new(wanted), responses, shown: HashMap::new() };
    tokio::spawn(stream.run(engine, events));
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
pub(super) fn end(events: &JournalWatch) -> RpcError {
    if events.has_lost_events() { too_slow() } else { RpcError::new(ENODATA, "") }
}

/// The end of a stream whose client does not keep up.
pub(super) fn too_slow() -> RpcError {
    RpcError::new(EOVERFLOW, "events were lost: they came faster than they were read")
}

impl Stream {
    async fn run(mut self, engine: EngineHandle, mut events: JournalWatch) {
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
                biased;
                () = self.responses.closed() => return,
                event = events.next() => match event {
                    Some(event) if self.present(&event).await.is_ok() => {}
                    Some(_) => return,
                    None => break,
                }
            }
        }
        let _ = self.responses.send(Err(end(&events))).await;
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
}
