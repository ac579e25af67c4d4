//! What the engine wants to be stored, answered, started and logged.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::Value;

use super::{AllocationCommand, ExecCommand, RequestError, Writes};
use crate::eventlog::EventEntry;
use crate::host::{BlockingCommand, PluginFuture, PluginKey, ProcessCommand, ReplyTo, RpcCommand};
use crate::job::{Flags, JobId, Timestamp, Uid, Urgency};
use crate::plugin::Level;

/// A timer of the engine; unique within one run of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(pub NonZeroU64);

/// How much of the work for an input is done.
///
/// Work on very many jobs has parts, so that a host can make the writes of the first ones durable meanwhile. After each
/// part, a restart can continue with what is stored. The host carries out the other effects once the writes of all
/// parts are durable: one of them may be the response to the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Gathered {
    /// All of it.
    All,
    /// A part. The next one follows by [`Engine::go_on`](crate::Engine::go_on).
    Part,
}

/// The result of one call of the engine.
#[derive(Debug, Default)]
pub struct Effects {
    /// Changes to the store, to be made durable in one commit.
    pub writes: Writes,
    /// What to do, in this order, once these writes and all earlier ones are durable.
    pub after: Vec<Effect>,
    /// Lines for the manager's log; they do not wait for the commit.
    pub log: Vec<LogLine>,
    /// The number of events that watchers of all jobs would have seen while [nothing
    /// watched](crate::Engine::set_watched).
    pub unpublished: u64,
    /// Whether nothing watches jobs, so that their events are not among the effects.
    unwatched: bool,
}

/// The maximum number of effects for which room is reserved in advance.
const MOST_ROOM: usize = 16 * 1024;

impl Effects {
    /// Takes all effects, and reserves room for as many: under load, turns are about equally long, and lists that grow
    /// step by step would be copied at each step.
    pub(crate) fn take(&mut self) -> Self {
        let room = self.after.len().min(MOST_ROOM);
        Self {
            writes: self.writes.take(),
            after: std::mem::replace(&mut self.after, Vec::with_capacity(room)),
            log: std::mem::take(&mut self.log),
            unpublished: std::mem::take(&mut self.unpublished),
            unwatched: self.unwatched,
        }
    }

    /// Writes to the manager's log.
    pub(crate) fn log(&mut self, level: Level, text: impl Into<String>) {
        self.log.push(LogLine { level, text: text.into() });
    }

    /// Responds to a request, once everything that was caused so far is durable.
    pub(crate) fn reply(&mut self, to: ReplyTo, result: Result<Value, RequestError>) {
        // After the writes of this input, so that nothing is acknowledged before it is durable.
        self.after.push(Effect::Reply { to, result });
    }

    /// Responds to a request, with the plugins' messages to the user.
    pub(crate) fn reply_with(
        &mut self,
        to: ReplyTo,
        messages: Vec<String>,
        mut result: Result<Value, RequestError>,
    ) {
        if !messages.is_empty() {
            match &mut result {
                Ok(payload) => {
                    if let Some(payload) = payload.as_object_mut() {
                        payload.insert("messages".to_owned(), messages.into());
                    }
                }
                Err(error) => error.messages = messages,
            }
        }
        self.reply(to, result);
    }

    /// See [`Engine::set_watched`](crate::Engine::set_watched).
    pub(crate) fn set_watched(&mut self, watched: bool) {
        self.unwatched = !watched;
    }

    /// Shows watchers an event in one of a job's logs.
    pub(crate) fn publish(&mut self, id: JobId, log: JobLog, seq: u64, entry: impl Logged) {
        match (self.unwatched, log) {
            (false, _) => {
                self.after.push(Effect::Publish { id, log, seq, entry: entry.share() });
            }
            (true, JobLog::Main) => self.unpublished += 1,
            (true, JobLog::Exec) => {}
        }
    }

    /// Shows watchers of all jobs an event that is in no log.
    pub(crate) fn announce(&mut self, id: JobId, entry: &Arc<EventEntry>) {
        match self.unwatched {
            false => self.after.push(Effect::Announce { id, entry: Arc::clone(entry) }),
            true => self.unpublished += 1,
        }
    }
}

/// An event to be logged. It is put behind an [`Arc`] only if something besides its log needs it too: nothing else sees
/// most events of an execution.
pub(crate) trait Logged {
    /// The event.
    fn entry(&self) -> &EventEntry;
    /// The event behind an [`Arc`].
    fn share(self) -> Arc<EventEntry>;
}

impl Logged for EventEntry {
    fn entry(&self) -> &EventEntry {
        self
    }

    fn share(self) -> Arc<EventEntry> {
        Arc::new(self)
    }
}

impl Logged for &Arc<EventEntry> {
    fn entry(&self) -> &EventEntry {
        self
    }

    fn share(self) -> Arc<EventEntry> {
        Arc::clone(self)
    }
}

impl From<Writes> for Effects {
    fn from(writes: Writes) -> Self {
        Self { writes, ..Self::default() }
    }
}

/// One change to the store (keys of RFC 16).
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Appends lines to a log of a job.
    Append {
        /// The job.
        id: JobId,
        /// Which log.
        log: JobLog,
        /// The number of lines before these.
        seq: u64,
        /// The lines, each with its newline, in UTF-8.
        lines: Vec<u8>,
    },
    /// Stores a value under `job.<id>.<key>`.
    Put {
        /// The job.
        id: JobId,
        /// Key below the job's directory: `J`, `jobspec`, `R`, `data.<plugin>`.
        key: Cow<'static, str>,
        /// The text.
        value: String,
    },
    /// Stores under `job.<id>.<key>` that the value is that of an instance key: the elements of an array share the request
    /// that has submitted them.
    Share {
        /// The job.
        id: JobId,
        /// Key below the job's directory: `J`, `environment`.
        key: &'static str,
        /// The key that has the value. It is there as long as the job is.
        with: String,
    },
    /// Notes that a job was accepted and is active from now on.
    Accepted {
        /// The job.
        id: JobId,
    },
    /// Notes that a job is inactive. The summary is all that a restart needs to know about the job, for
    /// [`ReadJob::from_summary`](crate::ReadJob::from_summary); the job's other keys stay as they are.
    Inactive {
        /// The job.
        id: JobId,
        /// A JSON object whose form only the engine knows.
        summary: String,
    },
    /// Removes all keys of a job.
    Remove {
        /// The job.
        id: JobId,
    },
    /// Appends a line to a log of the instance, such as `resource.eventlog`.
    AppendInstance {
        /// The key.
        key: String,
        /// The number of lines before this one.
        seq: u64,
        /// The line, newline included.
        line: String,
    },
    /// Stores a value under an instance key such as `checkpoint.job-manager`.
    PutInstance {
        /// The key.
        key: String,
        /// The text.
        value: String,
    },
    /// Removes an instance key.
    RemoveInstance {
        /// The key.
        key: String,
    },
}

/// The logs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobLog {
    /// `eventlog`: the events of RFC 21.
    Main,
    /// `guest.exec.eventlog`: the events of its execution (RFC 50).
    Exec,
}

impl JobLog {
    /// The key below the job's directory.
    pub const fn key(self) -> &'static str {
        match self {
            JobLog::Main => "eventlog",
            JobLog::Exec => "guest.exec.eventlog",
        }
    }
}

/// Something to do once the writes before it are durable.
#[derive(Debug)]
pub enum Effect {
    /// Answer a request.
    Reply {
        /// Which one.
        to: ReplyTo,
        /// The payload of the response, or the refusal.
        result: Result<Value, RequestError>,
    },
    /// Send one response of a stream.
    Respond {
        /// To which request.
        to: ReplyTo,
        /// The payload of the response.
        payload: Value,
    },
    /// Start or signal a process of a plugin.
    Process {
        /// The plugin.
        plugin: PluginKey,
        /// What to do. Boxed, since it is larger than any other effect, and each job has a dozen effects.
        command: Box<ProcessCommand>,
    },
    /// Send a request of a plugin to a service, or drop its response.
    Rpc {
        /// The plugin.
        plugin: PluginKey,
        /// What to do.
        command: RpcCommand,
    },
    /// Run blocking work of a plugin on a separate thread, or drop its work that has not begun.
    Blocking {
        /// The plugin.
        plugin: PluginKey,
        /// What to do.
        command: BlockingCommand,
    },
    /// Show an event to watchers of the job's log.
    Publish {
        /// The job.
        id: JobId,
        /// Which log.
        log: JobLog,
        /// The number of events before this one.
        seq: u64,
        /// The entry.
        entry: Arc<EventEntry>,
    },
    /// Show an event that is in no log to watchers of all jobs.
    Announce {
        /// The job.
        id: JobId,
        /// The entry.
        entry: Arc<EventEntry>,
    },
    /// Tell the executor what to do.
    Exec(ExecCommand),
    /// Ask the outer job manager for an allocation, or give one back.
    Allocation(AllocationCommand),
    /// Give the engine [`Input::Timer`](super::Input::Timer) at this time.
    Timer {
        /// Which timer.
        id: TimerId,
        /// When, as UNIX time.
        at: Timestamp,
    },
    /// Run the asynchronous work of a plugin, off the engine's thread.
    Spawn(PluginFuture),
    /// Look up the name and the groups of a user in the system, and give the engine
    /// [`Input::Requester`](super::Input::Requester) soon, even if the lookup fails: the user's requests wait for it.
    LookUp {
        /// The user.
        user: Uid,
    },
    /// Submit again a job that can't start: give the engine [`Request::Resubmit`](super::Request::Resubmit), with the
    /// environment that the job was submitted with.
    Resubmit(Box<Resubmission>),
}

/// A job to submit again.
#[derive(Debug, Clone)]
pub struct Resubmission {
    /// The job.
    pub of: JobId,
    /// Its user.
    pub userid: Uid,
    /// The urgency of the new job.
    pub urgency: Urgency,
    /// Its flags.
    pub flags: Flags,
    /// Its jobspec, without the environment.
    pub jobspec: Value,
}

/// A line for the manager's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The severity.
    pub level: Level,
    /// The message.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_watches_is_counted_and_not_published() {
        let (id, mut effects) = (JobId::new(1), Effects::default());
        let entry = Arc::new(EventEntry::new(Timestamp::from_secs(1.0), "submit", None));
        let post = |effects: &mut Effects| {
            effects.publish(id, JobLog::Main, 0, &entry);
            effects.publish(id, JobLog::Exec, 0, &entry);
            effects.announce(id, &entry);
            effects.take()
        };
        let published = post(&mut effects);
        assert_eq!((published.after.len(), published.unpublished), (3, 0));
        effects.set_watched(false);
        // Watchers of all jobs don't see the events of the execution.
        for _ in 0..2 {
            let counted = post(&mut effects);
            assert_eq!((counted.after.len(), counted.unpublished), (0, 2));
        }
        effects.set_watched(true);
        assert_eq!(post(&mut effects).after.len(), 3);
    }
}
