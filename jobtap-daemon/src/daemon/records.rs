//! What the store has about each job: its keys, its eventlogs and its files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobtap_core::engine::{ArrayKey, Cred, JobLog};
use jobtap_core::eventlog::{Event, EventEntry, Name, decode_log};
use jobtap_core::job::{JobId, Uid};

use crate::rpc::RpcError;
use crate::rpc::errno::{EFBIG, EIO, ENOENT, EPERM};
use crate::store::{Found, GuestFiles, Key, Store, request};

/// The maximum number of bytes of a job's input or output that a guest gets in one response. As a stream
/// (`job-info.eventlog-watch`) a guest gets all of it.
const MOST_AT_ONCE: u64 = 4 << 20;
/// The same for the owner.
const MOST_FOR_OWNER: u64 = 64 << 20;

/// Access to the records of all jobs.
#[derive(Clone)]
pub(super) struct Records {
    store: Arc<dyn Store>,
    files: GuestFiles,
}

/// A job's main eventlog.
pub(super) struct MainLog {
    /// The whole text.
    pub text: String,
    /// Its events.
    pub events: Vec<EventEntry>,
    /// Whether it isn't a job, but a job array.
    pub is_array: bool,
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

    /// The files of jobs outside the store.
    pub(super) fn files(&self) -> &GuestFiles {
        &self.files
    }

    /// The content of the file of a job's input or output, for a client; `None` for other keys, or a file that doesn't
    /// exist.
    ///
    /// # Errors
    /// EFBIG for a large one: the manager would hold all of it in memory, several times as JSON.
    pub(super) fn read_file(
        &self,
        id: JobId,
        key: &str,
        cred: Cred,
    ) -> Result<Option<Vec<u8>>, RpcError> {
        let most = if cred.owner { MOST_FOR_OWNER } else { MOST_AT_ONCE };
        self.files.read_up_to(id.as_u64(), key, most).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let most = most >> 20;
                let who = if cred.owner { "nobody can" } else { "guests can't" };
                let text = format!(
                    "{key}: more than {most} MiB, which {who} get at once; \
                     \"jobtap job attach {id}\" shows it line by line"
                );
                RpcError::new(EFBIG, text)
            }
            _ => unreadable(error),
        })
    }

    /// The file of a job's input or output; `None` for a key that is always in the store.
    pub(super) fn file(&self, id: JobId, key: &str) -> Option<PathBuf> {
        self.files.path(id.as_u64(), key)
    }

    /// Removes the files of a job's input and output.
    pub(super) fn remove_files(&self, id: JobId) {
        self.files.remove(id.as_u64());
    }

    /// The text of one of a job's eventlogs; `None` if the job has no such log.
    pub(super) fn log(&self, id: JobId, log: JobLog) -> Result<Option<String>, RpcError> {
        let key = Key::job(id.as_u64(), log.key()).map_err(unreadable)?;
        let bytes = self.store.read_log(&key).map_err(unreadable)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(unreadable)).transpose()
    }

    /// The text of the main eventlog of a job or a job array, and whether it is that of an array.
    fn main_text(&self, id: JobId) -> Result<(String, bool), RpcError> {
        if let Some(text) = self.log(id, JobLog::Main)? {
            return Ok((text, false));
        }
        let found = self.of_array(ArrayKey::Eventlog, id)?;
        let bytes = found.ok_or_else(|| RpcError::new(ENOENT, "invalid job id"))?;
        Ok((String::from_utf8(bytes).map_err(unreadable)?, true))
    }

    /// The user of a job or a job array.
    ///
    /// # Errors
    /// As those of [`main_log`](Self::main_log).
    pub(super) fn userid(&self, id: JobId) -> Result<Option<Uid>, RpcError> {
        let (text, _) = self.main_text(id)?;
        // The first event says it. The log may be long.
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        Ok(submitter(&decode_log(first).map_err(unreadable)?))
    }

    /// The value of a key of a job; `None` if there is no such key.
    pub(super) fn value(&self, id: JobId, name: &str) -> Result<Option<String>, RpcError> {
        let Ok(key) = Key::job(id.as_u64(), name) else {
            return Ok(None);
        };
        let bytes = match (self.store.get(&key).map_err(unreadable)?, ArrayKey::named(name)) {
            (None, Some(key)) => self.of_array(key, id)?,
            (bytes, _) => bytes,
        };
        bytes.map(|bytes| String::from_utf8(bytes).map_err(unreadable)).transpose()
    }

    /// What is stored at a key of a job; `None` if there is no such key.
    pub(super) fn find(&self, id: JobId, name: &str) -> Result<Option<Found>, RpcError> {
        let Ok(key) = Key::job(id.as_u64(), name) else {
            return Ok(None);
        };
        self.store.find(&key).map_err(unreadable)
    }

    /// The value of a key that several jobs share, as it is stored.
    pub(super) fn stored(&self, key: &Key) -> Result<Option<Vec<u8>>, RpcError> {
        Ok(self.store.find(key).map_err(unreadable)?.and_then(Found::into_value))
    }

    /// What is stored about a job array with this id, if there is one.
    fn of_array(&self, key: ArrayKey, id: JobId) -> Result<Option<Vec<u8>>, RpcError> {
        let stored = Key::instance(&key.of(id)).map_err(unreadable)?;
        let found = match key {
            ArrayKey::Eventlog => self.store.read_log(&stored),
            _ => self.store.get(&stored),
        };
        // As under the key of a job.
        Ok(found.map_err(unreadable)?.map(|value| request::shown(key.name(), value)))
    }

    /// The main eventlog of a job or a job array, for the manager itself.
    ///
    /// # Errors
    /// ENOENT for an unknown job, EIO for a log that cannot be read.
    pub(super) fn main_log(&self, id: JobId) -> Result<MainLog, RpcError> {
        let (text, is_array) = self.main_text(id)?;
        let events = decode_log(&text).map_err(unreadable)?;
        Ok(MainLog { text, events, is_array })
    }

    /// A job's main eventlog, for a client.
    ///
    /// # Errors
    /// As [`main_log`](Self::main_log), and EPERM for a guest who asks for a job of another user.
    pub(super) fn main_log_for(&self, id: JobId, cred: Cred) -> Result<MainLog, RpcError> {
        let log = self.main_log(id)?;
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
        submitter(&self.events)
    }

    /// Whether an event of this name was posted.
    pub(super) fn has(&self, name: &Name) -> bool {
        self.events.iter().any(|event| event.name == *name)
    }

    /// Whether the job is inactive.
    pub(super) fn is_inactive(&self) -> bool {
        let is_last = self.events.last().is_some_and(|event| event.name == Name::Clean);
        is_last || self.has(&Name::Clean)
    }

    /// Whether the job has the event that ends its state RUN: `finish` or a fatal exception (RFC 21).
    pub(super) fn has_ended(&self) -> bool {
        let ends =
            |event: &EventEntry| event.name == Name::Finish || event.fatal_exception().is_some();
        self.events.iter().any(ends)
    }

    /// How many exceptions came from the executor.
    pub(super) fn exec_exceptions(&self) -> usize {
        let raised = self.events.iter().filter_map(EventEntry::exception);
        raised.filter(|raised| raised.kind == "exec").count()
    }
}

/// The user that the first event of a main eventlog names.
fn submitter(events: &[EventEntry]) -> Option<Uid> {
    match events.first()?.event() {
        Ok(Event::Submit(submitted)) => Some(submitted.userid),
        _ => None,
    }
}

/// The error for a store that cannot be read, or a malformed value in it.
pub(super) fn unreadable(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(EIO, format!("the job's record can't be read: {error}"))
}
