//! What the store has of one job, read for those who look it up, watch it or run it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobtap_core::engine::{Cred, Log};
use jobtap_core::eventlog::{EventEntry, decode_log};
use jobtap_core::job::{JobId, Uid};
use serde_json::Value;

use crate::rpc::RpcError;
use crate::rpc::errno::{EIO, ENOENT, EPERM};
use crate::store::{GuestFiles, Key, Store};

/// Access to the records of all jobs.
#[derive(Clone)]
pub(super) struct Records {
    store: Arc<dyn Store>,
    files: GuestFiles,
}

/// A job's main eventlog with what follows from it.
pub(super) struct MainLog {
    /// The whole text.
    pub text: String,
    /// Its events.
    pub events: Vec<EventEntry>,
}

impl Records {
    /// The records in this store and in the state directory `state`.
    pub(super) fn new(store: Arc<dyn Store>, state: &Path) -> Self {
        Self { store, files: GuestFiles::new(state) }
    }

    /// The store itself.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What is kept of jobs outside the store.
    pub(super) fn files(&self) -> &GuestFiles {
        &self.files
    }

    /// The file of a job's input or output; none for a key that is no file.
    pub(super) fn file(&self, id: JobId, key: &str) -> Option<PathBuf> {
        self.files.path(id.as_u64(), key)
    }

    /// Removes what a job has read and printed.
    pub(super) fn remove_files(&self, id: JobId) {
        self.files.remove(id.as_u64());
    }

    /// The text of one of a job's eventlogs; `None` when it has none.
    pub(super) fn log(&self, id: JobId, log: Log) -> Result<Option<String>, RpcError> {
        let key = Key::job(id.as_u64(), log.key()).map_err(unreadable)?;
        let bytes = self.store.read_log(&key).map_err(unreadable)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(unreadable)).transpose()
    }

    /// The text under a key of a job.
    pub(super) fn value(&self, id: JobId, name: &str) -> Result<Option<String>, RpcError> {
        let Ok(key) = Key::job(id.as_u64(), name) else {
            return Ok(None);
        };
        let bytes = self.store.get(&key).map_err(unreadable)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(unreadable)).transpose()
    }

    /// A job's main eventlog, for its user and the owner; everybody else and unknown jobs are refused.
    pub(super) fn main_log(&self, id: JobId, cred: Cred) -> Result<MainLog, RpcError> {
        let text =
            self.log(id, Log::Main)?.ok_or_else(|| RpcError::new(ENOENT, "invalid job id"))?;
        let events = decode_log(&text).map_err(unreadable)?;
        let log = MainLog { text, events };
        if cred.owner || log.userid() == Some(cred.userid) {
            Ok(log)
        } else {
            Err(RpcError::new(EPERM, "guests can only access their own jobs"))
        }
    }
}

impl MainLog {
    /// The job's user.
    pub(super) fn userid(&self) -> Option<Uid> {
        let submit = self.events.first()?.context.as_ref()?;
        let uid = submit.get("userid")?.as_u64()?;
        u32::try_from(uid).ok().map(Uid::new)
    }

    /// Whether an event of this name was posted.
    pub(super) fn has(&self, name: &str) -> bool {
        self.events.iter().any(|event| event.name == name)
    }

    /// Whether the job is over.
    pub(super) fn is_inactive(&self) -> bool {
        self.events.last().is_some_and(|event| event.name == "clean") || self.has("clean")
    }

    /// Whether the event that ends the job's run is there: `finish` or a fatal exception (RFC 21).
    pub(super) fn has_ended(&self) -> bool {
        let severity = |event: &EventEntry| {
            let context = event.context.as_ref();
            context.and_then(|context| context.get("severity")).and_then(Value::as_i64)
        };
        self.events.iter().any(|event| event.name == "finish" || severity(event) == Some(0))
    }

    /// How many exceptions came from the execution system.
    pub(super) fn exec_exceptions(&self) -> usize {
        let of_exec = |event: &&EventEntry| {
            let kind = event.context.as_ref().and_then(|context| context.get("type"));
            event.name == "exception" && kind.and_then(Value::as_str) == Some("exec")
        };
        self.events.iter().filter(of_exec).count()
    }
}

/// A store that can't be read, or a record in it that makes no sense.
pub(super) fn unreadable(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(EIO, format!("the job's record can't be read: {error}"))
}
