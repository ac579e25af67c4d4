//! The part of the engine that owns the loaded plugins, and what is open with them.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::agenda::{Agenda, Cause, Chain, Frame, PendingDispatch, Work};
use crate::api::{Effect, Effects, Level, ReplyTo, RequestError};
use crate::host::errno::ENOSYS;
use crate::host::{
    AsyncError, BoundHandler, PluginKey, Registry, RemoteSink, RequestKey, Stack, TIME_BUDGET,
    Ticks,
};
use crate::job::{JobId, Timestamp};
use crate::plugin::ServiceError;
use crate::shadows::Shadows;
use crate::topic::TopicId;

/// Milliseconds that a callback may take, unless `job-manager.plugin-time-budget` says otherwise.
pub(super) const DEFAULT_BUDGET: u64 = TIME_BUDGET;

/// The number of panics in a short time that makes a plugin faulted, unless `job-manager.plugin-panic-limit` says
/// otherwise.
pub(super) const DEFAULT_PANIC_LIMIT: u64 = 3;

/// A plugin can no longer answer something that waits for it.
#[derive(Debug, thiserror::Error)]
#[error("plugin {plugin} {how} before it answered")]
pub(crate) struct Unanswered {
    pub(crate) plugin: Arc<str>,
    /// What became of the plugin.
    pub(crate) how: &'static str,
}

/// Why an asynchronous handler of a gate has not accepted the job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAccepted {
    #[error(transparent)]
    Handler(#[from] AsyncError),
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// The loaded plugins, what is needed to load more, and what is open with them.
pub(crate) struct Plugins {
    pub(crate) registry: Registry,
    pub(crate) stack: Stack,
    pub(crate) shadows: Shadows,
    /// Where work outside the engine's thread sends its calls back into plugins.
    pub(super) sink: Arc<dyn RemoteSink>,
    pub(crate) ticks: Ticks,
    /// Milliseconds that a callback may take before a warning is logged.
    pub(super) budget: u64,
    /// The number of panics that makes a plugin faulted.
    pub(crate) panic_limit: u64,
    /// The times of each plugin's panics within the last period.
    pub(super) panics: FxHashMap<PluginKey, Vec<Timestamp>>,
    pub(super) next_key: u64,
    /// Dispatches of `job.validate` that wait for an asynchronous handler, by job.
    pub(super) suspended: FxHashMap<JobId, Frame>,
    /// Requests in Slurm's terms that plugins decide on.
    pub(super) chains: FxHashMap<RequestKey, Box<Chain>>,
    next_request: u64,
    /// Requests for plugin services that are answered later.
    pub(super) open_requests: FxHashMap<ReplyTo, PluginKey>,
    /// The data of plugins on the instance, by plugin.
    pub(crate) instance_data: FxHashMap<String, Value>,
}

impl Plugins {
    pub(crate) fn new(registry: Registry, sink: Arc<dyn RemoteSink>, ticks: Ticks) -> Self {
        Self {
            registry,
            stack: Stack::default(),
            shadows: Shadows::default(),
            sink,
            ticks,
            budget: DEFAULT_BUDGET,
            panic_limit: DEFAULT_PANIC_LIMIT,
            panics: FxHashMap::default(),
            next_key: 0,
            suspended: FxHashMap::default(),
            chains: FxHashMap::default(),
            next_request: 0,
            open_requests: FxHashMap::default(),
            instance_data: FxHashMap::default(),
        }
    }

    /// A key for the next request in Slurm's terms.
    pub(crate) fn next_request(&mut self) -> RequestKey {
        self.next_request += 1;
        RequestKey(self.next_request)
    }

    /// Whether a plugin, or a shadow of one, has a handler for this topic.
    #[inline]
    pub(crate) fn is_handled(&self, topic: TopicId) -> bool {
        self.stack.handles(topic) || self.shadows.handle(topic)
    }

    /// Puts on top of the agenda a call of the handlers of a topic that reports something that has happened to a job.
    #[inline]
    pub(crate) fn notify(&self, agenda: &mut Agenda, topic: TopicId, job: JobId, cause: Cause) {
        if self.is_handled(topic) {
            agenda.push(Work::Notify(PendingDispatch { topic, job, cause }));
        }
    }

    /// Warns when no loaded plugin decides priorities. A handler of `job.state.priority` may decide nothing.
    pub(super) fn warn_without_priority(&self, effects: &mut Effects) {
        let handlers = self.stack.handlers(TopicId::JobStatePriority);
        if !handlers.is_some_and(|list| list.iter().any(BoundHandler::sets_priority)) {
            let text = "no loaded plugin decides priorities in job.state.priority: jobs will wait in \
                        PRIORITY until one does";
            effects.log(Level::Warning, text);
        }
    }

    /// The name of a loaded plugin, for messages.
    pub(crate) fn name(&self, key: PluginKey) -> Arc<str> {
        let loaded = self.stack.get(key);
        loaded.map_or_else(|| Arc::from("a removed plugin"), |plugin| Arc::clone(plugin.name()))
    }

    /// Takes a dispatch off the agenda until its asynchronous handlers have given their verdicts.
    ///
    /// A job has at most one suspended dispatch: its submission passes one gate at a time, and later only one update
    /// may be validated at a time (see `requests/update`).
    pub(crate) fn suspend(&mut self, id: JobId, frame: Frame) {
        self.suspended.insert(id, frame);
    }

    /// Whether a dispatch for this job is suspended.
    pub(crate) fn is_suspended(&self, id: JobId) -> bool {
        self.suspended.contains_key(&id)
    }

    /// Puts the suspended dispatch of a job back on the agenda, as refused.
    pub(crate) fn refuse_suspended(&mut self, agenda: &mut Agenda, id: JobId, text: &str) {
        if let Some(mut frame) = self.suspended.remove(&id) {
            frame.refusal = Some(text.to_owned());
            agenda.push(Work::Frame(frame.into()));
        }
    }

    /// Takes one verdict on a suspended dispatch. The dispatch goes on when no other verdict is
    /// awaited, or this one refuses.
    pub(super) fn give_verdict(
        &mut self,
        agenda: &mut Agenda,
        plugin: PluginKey,
        job: JobId,
        verdict: Result<(), NotAccepted>,
    ) {
        let Some(frame) = self.suspended.get_mut(&job) else {
            return;
        };
        let Some(index) = frame.awaited.iter().position(|awaited| *awaited == plugin) else {
            return;
        };
        frame.awaited.remove(index);
        if let Err(error) = verdict {
            frame.awaited.clear();
            frame.refusal = Some(error.to_string());
        }
        if frame.awaited.is_empty()
            && let Some(frame) = self.suspended.remove(&job)
        {
            agenda.push(Work::Frame(Box::new(frame)));
        }
    }

    /// Refuses every suspended dispatch that waits for a plugin that can no longer give its verdict. `how` says what
    /// became of the plugin.
    pub(super) fn refuse_awaited(
        &mut self,
        agenda: &mut Agenda,
        closed: &[(PluginKey, Arc<str>)],
        how: &'static str,
    ) {
        let mut refused: Vec<(JobId, PluginKey, Unanswered)> = Vec::new();
        for (job, frame) in &self.suspended {
            if let Some((key, name)) = closed.iter().find(|(key, _)| frame.awaited.contains(key)) {
                refused.push((*job, *key, Unanswered { plugin: Arc::clone(name), how }));
            }
        }
        for (job, key, unanswered) in refused {
            self.give_verdict(agenda, key, job, Err(unanswered.into()));
        }
    }

    /// Notes that a plugin will answer a request for its service later.
    pub(crate) fn expect_response(&mut self, to: ReplyTo, plugin: PluginKey) {
        self.open_requests.insert(to, plugin);
    }

    /// Forgets a request whose client has gone.
    pub(crate) fn abandon(&mut self, to: ReplyTo) {
        self.open_requests.remove(&to);
    }

    /// Sends one response of a stream, if the request is this plugin's and still open.
    pub(super) fn respond(
        &self,
        effects: &mut Effects,
        plugin: PluginKey,
        to: ReplyTo,
        payload: Value,
    ) {
        if self.open_requests.get(&to) == Some(&plugin) {
            effects.after.push(Effect::Respond { to, payload });
        }
    }

    /// Sends the last response to a request, if it is this plugin's and still open.
    pub(super) fn answer(
        &mut self,
        effects: &mut Effects,
        plugin: PluginKey,
        to: ReplyTo,
        result: Result<Value, ServiceError>,
    ) {
        if self.open_requests.get(&to) == Some(&plugin) {
            self.open_requests.remove(&to);
            let result = result.map_err(|error| RequestError::new(error.errno, error.text));
            effects.after.push(Effect::Reply { to, result });
        }
    }

    /// Refuses the requests that removed plugins have not answered.
    pub(super) fn refuse_requests(
        &mut self,
        effects: &mut Effects,
        closed: &[(PluginKey, Arc<str>)],
    ) {
        for (key, name) in closed {
            for (to, _) in self.open_requests.extract_if(|_, plugin| plugin == key) {
                let unanswered = Unanswered { plugin: Arc::clone(name), how: "was removed" };
                let result = Err(RequestError::new(ENOSYS, unanswered.to_string()));
                effects.after.push(Effect::Reply { to, result });
            }
        }
    }
}
