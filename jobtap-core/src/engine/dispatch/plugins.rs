//! The part of the engine that owns the loaded plugins, and what is open with them.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::engine::agenda::{Agenda, Chain, Frame, Work};
use crate::engine::api::{Effect, Effects, ReplyTo, RequestError};
use crate::engine::shadow::Shadows;
use crate::host::errno::ENOSYS;
use crate::host::{
    PluginKey, Registry, RemoteSink, RequestKey, ServiceError, Stack, TIME_BUDGET, Ticks,
};
use crate::job::{JobId, Timestamp};

/// Milliseconds that a callback may take, unless `job-manager.plugin-time-budget` says otherwise.
pub(super) const DEFAULT_BUDGET: u64 = TIME_BUDGET;

/// The loaded plugins, what is needed to load more, and what is open with them.
pub(crate) struct Plugins {
    pub(crate) registry: Registry,
    pub(crate) stack: Stack,
    pub(crate) shadows: Shadows,
    /// The way back for work outside the engine's thread.
    pub(super) sink: Arc<dyn RemoteSink>,
    pub(crate) ticks: Ticks,
    /// Milliseconds that a callback may take before the log says so.
    pub(super) budget: u64,
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

    /// The name of a loaded plugin, for messages.
    pub(crate) fn name(&self, key: PluginKey) -> Arc<str> {
        let loaded = self.stack.get(key);
        loaded.map_or_else(|| Arc::from("a removed plugin"), |plugin| Arc::clone(plugin.name()))
    }

    /// Takes a dispatch off the agenda until its asynchronous handlers have given their verdicts.
    ///
    /// A job has one suspended dispatch at most: its submission passes one gate at a time, and later only
    /// one update of it may be validated (see `requests/update`).
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
        verdict: Result<(), String>,
    ) {
        let Some(frame) = self.suspended.get_mut(&job) else {
            return;
        };
        let Some(index) = frame.awaited.iter().position(|awaited| *awaited == plugin) else {
            return;
        };
        frame.awaited.remove(index);
        if let Err(text) = verdict {
            frame.awaited.clear();
            frame.refusal = Some(text);
        }
        if frame.awaited.is_empty()
            && let Some(frame) = self.suspended.remove(&job)
        {
            agenda.push(Work::Frame(Box::new(frame)));
        }
    }

    /// Refuses every suspended dispatch that waits for the verdict of a plugin that cannot give it any
    /// more. `how` says what became of the plugin.
    pub(super) fn refuse_awaited(
        &mut self,
        agenda: &mut Agenda,
        closed: &[(PluginKey, Arc<str>)],
        how: &str,
    ) {
        let mut refused: Vec<(JobId, PluginKey, String)> = Vec::new();
        for (job, frame) in &self.suspended {
            if let Some((key, name)) = closed.iter().find(|(key, _)| frame.awaited.contains(key)) {
                let text = format!("plugin {name} {how} before it answered");
                refused.push((*job, *key, text));
            }
        }
        for (job, key, text) in refused {
            self.give_verdict(agenda, key, job, Err(text));
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

    /// Refuses the requests that plugins which were removed have not answered.
    pub(super) fn refuse_requests(
        &mut self,
        effects: &mut Effects,
        closed: &[(PluginKey, Arc<str>)],
    ) {
        for (key, name) in closed {
            for (to, _) in self.open_requests.extract_if(|_, plugin| plugin == key) {
                let text = format!("plugin {name} was removed before it answered");
                let result = Err(RequestError::new(ENOSYS, text));
                effects.after.push(Effect::Reply { to, result });
            }
        }
    }
}
