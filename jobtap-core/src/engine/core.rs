//! The parts of the engine, side by side.
//!
//! Each part owns its data and changes it by its own methods. What concerns several parts is done by
//! functions over [`Core`], or over just those parts that they name, so that a signature shows what
//! it may touch. The few steps that nearly all of these functions take are methods here.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::agenda::{Agenda, Cause, PendingDispatch, Work};
use super::alloc::Allocation;
use super::api::{Effect, Effects, JobLog, Level, LogLine, Logged, ReplyTo, RequestError};
use super::clock::Clock;
use super::dispatch::plugins::Plugins;
use super::events;
use super::exec::config::ExecConfig;
use super::jobs::waiters::Waiters;
use super::jobs::{Jobs, Record};
use super::requests::ingest::Submissions;
use super::timers::{Due, Timers};
use crate::eventlog::{Context, EventEntry};
use crate::host::{Exception, Severity};
use crate::job::{Flags, Job, JobId, Timestamp, Uid};
use crate::topic::TopicId;

/// The parts.
pub(super) struct Core {
    /// The user who owns the instance.
    pub(super) owner: Uid,
    /// The instance's configuration, an object.
    pub(super) config: Value,
    pub(super) config_directory: Option<PathBuf>,
    pub(super) clock: Clock,
    pub(super) jobs: Jobs,
    pub(super) agenda: Agenda,
    pub(super) plugins: Plugins,
    pub(super) submissions: Submissions,
    pub(super) waiters: Waiters,
    pub(super) alloc: Allocation,
    pub(super) exec: ExecConfig,
    pub(super) timers: Timers,
    /// What the current input leads to, so far.
    pub(super) effects: Effects,
    /// All jobs are restored: from here on resources are allocated.
    pub(super) started: bool,
}

impl Core {
    /// Posts an event to a job; see [`Jobs::post`].
    pub(super) fn post(&mut self, id: JobId, entry: EventEntry) {
        self.jobs.post(&mut self.agenda, id, entry);
    }

    /// Posts an event that only jobs with the `debug` flag have.
    pub(super) fn post_debug(&mut self, id: JobId, name: &'static str) {
        if self.jobs.get(id).is_some_and(|record| record.job.flags.contains(Flags::DEBUG)) {
            self.post(id, events::bare(self.clock.now, name));
        }
    }

    /// Posts an exception in the name of the instance's owner.
    pub(super) fn raise(&mut self, id: JobId, exception: &Exception) {
        let severity = exception.severity().get();
        let (kind, note) = (exception.kind(), exception.note());
        let entry = events::exception(self.clock.now, kind, severity, note, self.owner);
        self.post(id, entry);
    }

    /// Ends a job in the name of the instance's owner.
    pub(super) fn raise_fatal(&mut self, id: JobId, kind: &str, note: &str) {
        self.raise(id, &Exception::new(Severity::FATAL, kind, note));
    }

    /// Merges annotations into the job's, and shows the result to watchers of all jobs and to subscribed
    /// plugins. The event is not logged (RFC 21). Returns its context.
    pub(super) fn annotate(&mut self, id: JobId, notes: Map<String, Value>) -> Option<Context> {
        let context = self.jobs.annotate(id, notes)?.show();
        self.post(id, events::annotations(self.clock.now, context.clone()));
        Some(context)
    }

    /// Appends an event to a log of the job; see [`Jobs::append`].
    pub(super) fn append(&mut self, id: JobId, log: JobLog, entry: impl Logged) {
        self.jobs.append(&mut self.effects, id, log, entry);
    }

    /// Stores a value under a key of the job; see [`Jobs::put`].
    pub(super) fn put(&mut self, id: JobId, key: impl Into<Cow<'static, str>>, value: String) {
        self.jobs.put(&mut self.effects, id, key, value);
    }

    /// Notes that something has happened to a job; see [`Jobs::touch`].
    pub(super) fn touch(&mut self, id: JobId) {
        self.jobs.touch(&mut self.effects, id);
    }

    /// Calls the handlers of a topic that tells of something that has happened to a job, before any
    /// other work.
    #[inline]
    pub(super) fn notify(&mut self, topic: TopicId, job: JobId, cause: Cause) {
        if self.is_handled(topic) {
            self.agenda.push(Work::Notify(PendingDispatch { topic, job, cause }));
        }
    }

    /// Whether a plugin, or a shadow of one, has a handler for this topic.
    #[inline]
    pub(super) fn is_handled(&self, topic: TopicId) -> bool {
        self.plugins.stack.handles(topic) || self.plugins.shadows.handle(topic)
    }

    /// The job as plugins see it.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id).map(|record| &record.job)
    }

    /// A job that clients can know of, or this error.
    pub(super) fn accepted_or(
        &self,
        id: JobId,
        errno: i32,
        text: &str,
    ) -> Result<&Record, RequestError> {
        let record = self.jobs.get(id).filter(|record| record.is_accepted());
        record.ok_or_else(|| RequestError::new(errno, text))
    }

    /// Answers a request, once all that was caused so far is durable.
    pub(super) fn reply(&mut self, to: ReplyTo, result: Result<Value, RequestError>) {
        // Behind the writes of this input, so that nothing is acknowledged that is not durable.
        self.effects.after.push(Effect::Reply { to, result });
    }

    /// Answers a request, with what plugins say to the user.
    pub(super) fn reply_with(
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

    /// Writes to the manager's log.
    pub(super) fn log(&mut self, level: Level, text: impl Into<String>) {
        self.effects.log.push(LogLine { level, text: text.into() });
    }

    /// Sets a timer of the engine.
    pub(super) fn start_timer(&mut self, at: Timestamp, due: Due) -> super::api::TimerId {
        self.timers.start(&mut self.effects, at, due)
    }
}
