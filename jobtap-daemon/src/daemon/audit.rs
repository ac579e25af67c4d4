//! The audit log: who changed the instance, when, and with what result. An eventlog (RFC 18) for what
//! belongs to no job. Flux records the starts and ends of an instance under the same key.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::Cred;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot::{self, error::RecvError};

use crate::clock::now;
use crate::daemon::engine::replies::shutting_down;
use crate::daemon::engine::{EngineHandle, answered};
use crate::rpc::errno::EIO;
use crate::rpc::service::Audited;
use crate::rpc::{RpcError, RpcResult};
use crate::store::{Key, KeyError, Op, Store, StoreError};

/// The key of the log.
pub const KEY: &str = "admin.eventlog";
/// How many events are kept, unless `audit.max-events` says otherwise.
const KEPT: usize = 10_000;
/// Trimming rewrites the log, so it is trimmed only when it exceeds its limit by more than 1/`SLACK` of the limit.
const SLACK: usize = 8;

/// Why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The limit is not a number of events.
    #[error("audit.max-events: {0} is not a number of events, 1 or more")]
    Limit(String),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key is malformed.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The audit log of this instance.
pub(in crate::daemon) struct Audit {
    engine: EngineHandle,
    key: Key,
    limit: usize,
    since: Timestamp,
    log: Mutex<Lines>,
}

/// The log, including lines that are not durable yet.
struct Lines {
    kept: VecDeque<String>,
    next_seq: u64,
}

/// A requested change, as the log records it.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) struct Change {
    name: &'static str,
    context: Map<String, Value>,
}

impl Change {
    /// Returns the change that this request makes, with those of its fields that the service's row names.
    pub(in crate::daemon) fn from_request(request: &impl Serialize, audited: Audited) -> Self {
        let mut context = Map::new();
        if !audited.fields.is_empty()
            && let Ok(Value::Object(mut request)) = serde_json::to_value(request)
        {
            for field in audited.fields {
                let value = request.get_mut(*field).map(Value::take);
                if let Some(value) = value.filter(|value| !value.is_null()) {
                    context.insert((*field).to_owned(), value);
                }
            }
        }
        Self { name: audited.event, context }
    }
}

impl Audit {
    /// Opens the log in `store`, which keeps `limit` events.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(in crate::daemon) fn open(
        store: &dyn Store,
        engine: EngineHandle,
        limit: usize,
    ) -> Result<Self, AuditError> {
        let key = Key::instance(KEY)?;
        let text = store.read_log(&key)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let kept: VecDeque<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let log = Mutex::new(Lines { next_seq: kept.len() as u64, kept });
        Ok(Self { engine, key, limit, since: now(), log })
    }

    /// When this manager was started.
    pub(in crate::daemon) fn since(&self) -> Timestamp {
        self.since
    }

    /// Records the start of the manager.
    pub(in crate::daemon) fn start(&self, cred: Cred) {
        let context = json!({ "version": 1, "core_version": env!("CARGO_PKG_VERSION") });
        drop(self.append("start", cred, context));
    }

    /// Records the end of the manager.
    pub(in crate::daemon) fn finish(&self, cred: Cred) {
        drop(self.append("finish", cred, json!({ "version": 1 })));
    }

    /// Returns the response to a request once the change that it made is recorded. The change is recorded even if the
    /// returned future is dropped: otherwise a client that leaves at once would change something without a trace.
    pub(in crate::daemon) fn recorded(
        self: Arc<Self>,
        cred: Cred,
        change: Option<Change>,
        response: impl Future<Output = Result<RpcResult, RecvError>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = RpcResult> + Send>> {
        let Some(change) = change else { return Box::pin(answered(response)) };
        let task = tokio::spawn(async move {
            // No response means that the request was dropped before the engine began it, so nothing has changed.
            let Ok(result) = response.await else { return Err(shutting_down()) };
            self.record(cred, change, &result).await;
            result
        });
        Box::pin(async {
            task.await.unwrap_or_else(|error| Err(RpcError::new(EIO, error.to_string())))
        })
    }

    /// Records a change and its result, and returns when the record is durable.
    async fn record(&self, cred: Cred, change: Change, result: &RpcResult) {
        let mut context = change.context;
        let result = match result {
            Ok(_) => "ok".to_owned(),
            Err(error) => RpcError::to_string(error),
        };
        context.insert("result".to_owned(), Value::String(result));
        // If the record can't be stored, the manager ends with a failure anyway.
        let _ = self.append(change.name, cred, Value::Object(context)).await;
    }

    fn append(
        &self,
        name: &'static str,
        cred: Cred,
        context: Value,
    ) -> oneshot::Receiver<RpcResult> {
        let mut with_user = Map::from_iter([("userid".to_owned(), json!(cred.userid))]);
        if let Value::Object(context) = context {
            with_user.extend(context);
        }
        let entry = EventEntry::new(now(), name, Some(with_user));
        let line = entry.encode();
        // Locked until the line is queued, so that lines are stored in the order of their numbers.
        let mut log = self.lock();
        log.kept.push_back(line.clone());
        let cut = log.kept.len() > self.limit.saturating_add(self.limit / SLACK);
        let ops = if cut { self.rewritten(&mut log) } else { self.appended(&mut log, line) };
        self.engine.store(ops)
    }

    fn appended(&self, log: &mut Lines, line: String) -> Vec<Op> {
        let seq = log.next_seq;
        log.next_seq = seq.saturating_add(1);
        vec![Op::Append { key: self.key.clone(), seq, value: line.into_bytes() }]
    }

    /// Replaces the log with its newest events.
    fn rewritten(&self, log: &mut Lines) -> Vec<Op> {
        let surplus = log.kept.len().saturating_sub(self.limit);
        log.kept.drain(..surplus);
        let value: String = log.kept.iter().map(String::as_str).collect();
        // The whole log is now one record, number 0. A later manager continues from the line count, a number that no
        // record uses yet.
        log.next_seq = 1;
        let key = self.key.clone();
        vec![Op::Remove { key: key.clone() }, Op::Append { key, seq: 0, value: value.into_bytes() }]
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many events are kept according to `config`.
///
/// # Errors
/// A value that is not a number of events.
pub(in crate::daemon) fn limit(config: &Value) -> Result<usize, AuditError> {
    let Some(limit) = config.pointer("/audit/max-events") else {
        return Ok(KEPT);
    };
    let number = limit.as_u64().filter(|limit| *limit > 0);
    let number = number.and_then(|limit| usize::try_from(limit).ok());
    number.ok_or_else(|| AuditError::Limit(limit.to_string()))
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Uid;

    use super::*;
    use crate::daemon::engine::{Message, Messages};
    use crate::rpc::service::Service;
    use crate::rpc::services::queue;
    use crate::store::memory::MemoryStore;

    const OWNER: Cred = Cred { userid: Uid::new(7), owner: true };

    #[test]
    fn a_change_has_the_named_fields_that_are_given() {
        let request = queue::Start {
            reason: Some("why".to_owned()),
            nocheckpoint: true,
            ..queue::Start::default()
        };
        let change = Change::from_request(&request, request.audited().unwrap());
        assert_eq!(change.name, "queue-stop");
        assert_eq!(Value::Object(change.context), json!({"all": false, "reason": "why"}));
    }

    #[test]
    fn the_newest_events_are_kept_over_many_starts() {
        let store = MemoryStore::default();
        let messages = Arc::<Messages>::default();
        let config = json!({"audit": {"max-events": 8}});
        let open = || {
            let engine = EngineHandle::new(Arc::clone(&messages));
            Audit::open(&store, engine, limit(&config).unwrap()).unwrap()
        };
        let mut sent = 0u64;
        for run in 0..40 {
            let audit = open();
            // Covers every point at which one manager may end and the next one continue.
            for _ in 0..=run % 5 {
                drop(audit.append("purge", OWNER, json!({"n": sent})));
                sent += 1;
            }
            while let Some(Message::Store(ops, _)) = messages.try_take() {
                store.commit(ops).unwrap();
            }
        }
        let text = store.read_log(&Key::instance(KEY).unwrap()).unwrap().unwrap();
        let text = String::from_utf8(text).unwrap();
        let numbers: Vec<u64> = jobtap_core::eventlog::decode_log(&text)
            .unwrap()
            .iter()
            .map(|event| event.context.as_ref().unwrap()["n"].as_u64().unwrap())
            .collect();
        assert!((8..=9).contains(&numbers.len()), "{numbers:?}");
        assert_eq!(numbers.last(), Some(&(sent - 1)));
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    }

    #[test]
    fn a_change_is_recorded_though_its_client_has_left() {
        let store = MemoryStore::default();
        let messages = Arc::<Messages>::default();
        let engine = EngineHandle::new(Arc::clone(&messages));
        let audit = Arc::new(Audit::open(&store, engine, KEPT).unwrap());
        let change = |name| Some(Change { name, context: Map::new() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // The engine has begun the first request when its client leaves, and drops the second one.
            for (name, begun) in [("begun", true), ("dropped", false)] {
                let (engine, answer) = oneshot::channel();
                drop(Arc::clone(&audit).recorded(OWNER, change(name), answer));
                if begun {
                    engine.send(Ok(json!({}))).unwrap();
                }
            }
            // All tasks get their turns on this thread.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        let recorded = || match messages.try_take() {
            Some(Message::Store(ops, _)) => Some(ops),
            _ => None,
        };
        store.commit(recorded().expect("a record")).unwrap();
        // The other request has no record: what it asked for was not done.
        assert!(recorded().is_none());
        let text = store.read_log(&Key::instance(KEY).unwrap()).unwrap().unwrap();
        assert!(String::from_utf8(text).unwrap().contains(r#""name":"begun""#));
    }

    #[test]
    fn a_limit_is_a_number_of_events() {
        assert_eq!(limit(&json!({})).unwrap(), KEPT);
        for bad in [json!(0), json!("many"), json!(-1)] {
            assert!(limit(&json!({"audit": {"max-events": bad}})).is_err());
        }
    }
}
