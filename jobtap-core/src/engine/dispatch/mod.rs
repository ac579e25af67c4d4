//! Plugins: which are loaded, how their handlers are called, and what they ask for.
//!
//! A topic is *dispatched*: the handlers of all plugins are called in load order, and what a handler
//! has asked for is carried out before the next one is called.
//!
//! | file | what it holds |
//! |---|---|
//! | `invoke` | the one place where handlers are called |
//! | `buffer` | what handlers ask for during one callback |
//! | `frames` | one dispatch from the first handler to the last, with failures and suspension |
//! | `outcome` | what follows from priorities, annotations and resources that handlers return |
//! | `host`, `checks` | what a handler can read, and which of its calls are legal now |
//! | `commands` | what handlers asked for, carried out |
//! | `async_work` | asynchronous handlers at work on jobs |
//! | `loading`, `patterns`, `removal`, `introduction` | plugins that come and go, and the jobs that are there already |
//! | `faulted` | plugins that keep panicking |

pub(super) mod async_work;
mod buffer;
pub(super) mod checks;
pub(super) mod commands;
pub(super) mod faulted;
pub(super) mod frames;
pub(super) mod host;
pub(super) mod introduction;
pub(super) mod invoke;
pub(super) mod loading;
pub(super) mod outcome;
mod patterns;
pub(super) mod removal;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

pub use commands::INSTANCE_DATA;
pub use loading::PluginStatus;

use super::agenda::{Agenda, Frame, Work};
use super::api::{Effect, Effects, ReplyTo, RequestError};
use crate::host::{PluginKey, Registry, RemoteSink, ServiceError, Stack, Ticks};
use crate::job::JobId;
use faulted::Panics;

/// The loaded plugins, what is needed to load more, and what is open with them.
pub(super) struct Plugins {
    pub(super) registry: Registry,
    pub(super) stack: Stack,
    /// The way back for work outside the engine's thread.
    sink: Arc<dyn RemoteSink>,
    ticks: Ticks,
    /// Milliseconds that a callback may take before the log says so.
    budget: u64,
    panics: FxHashMap<PluginKey, Panics>,
    next_key: u64,
    /// Dispatches of `job.validate` that wait for an asynchronous handler, by job.
    suspended: FxHashMap<JobId, Frame>,
    /// Requests for plugin services that are answered later.
    open_requests: FxHashMap<ReplyTo, PluginKey>,
    /// The data of plugins on the instance, by plugin.
    pub(super) instance_data: FxHashMap<String, Value>,
}

impl Plugins {
    pub(super) fn new(registry: Registry, sink: Arc<dyn RemoteSink>, ticks: Ticks) -> Self {
        Self {
            registry,
            stack: Stack::default(),
            sink,
            ticks,
            budget: loading::DEFAULT_BUDGET,
            panics: FxHashMap::default(),
            next_key: 0,
            suspended: FxHashMap::default(),
            open_requests: FxHashMap::default(),
            instance_data: FxHashMap::default(),
        }
    }

    /// The name of a loaded plugin, for messages.
    pub(super) fn name(&self, key: PluginKey) -> Arc<str> {
        let loaded = self.stack.get(key);
        loaded.map_or_else(|| Arc::from("a removed plugin"), |plugin| Arc::clone(plugin.name()))
    }

    /// Takes a dispatch off the agenda until its asynchronous handlers have given their verdicts.
    pub(super) fn suspend(&mut self, id: JobId, frame: Frame) {
        self.suspended.insert(id, frame);
    }

    /// Whether a dispatch for this job is suspended.
    pub(super) fn is_suspended(&self, id: JobId) -> bool {
        self.suspended.contains_key(&id)
    }

    /// Puts the suspended dispatch of a job back on the agenda, as refused.
    pub(super) fn refuse_suspended(&mut self, agenda: &mut Agenda, id: JobId, text: &str) {
        if let Some(mut frame) = self.suspended.remove(&id) {
            frame.refusal = Some(text.to_owned());
            agenda.push(Work::Frame(frame.into()));
        }
    }

    /// Takes one verdict on a suspended dispatch. The dispatch goes on when no other verdict is
    /// awaited, or this one refuses.
    fn give_verdict(
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
    fn refuse_awaited(&mut self, agenda: &mut Agenda, gone: &[(PluginKey, Arc<str>)], how: &str) {
        let mut refused: Vec<(JobId, PluginKey, String)> = Vec::new();
        for (job, frame) in &self.suspended {
            if let Some((key, name)) = gone.iter().find(|(key, _)| frame.awaited.contains(key)) {
                let text = format!("plugin {name} {how} before it answered");
                refused.push((*job, *key, text));
            }
        }
        for (job, key, text) in refused {
            self.give_verdict(agenda, key, job, Err(text));
        }
    }

    /// Notes that a plugin will answer a request for its service later.
    pub(super) fn expect_response(&mut self, to: ReplyTo, plugin: PluginKey) {
        self.open_requests.insert(to, plugin);
    }

    /// Forgets a request whose client has gone.
    pub(super) fn abandon(&mut self, to: ReplyTo) {
        self.open_requests.remove(&to);
    }

    /// Sends one response of a stream, if the request is this plugin's and still open.
    fn respond(&self, effects: &mut Effects, plugin: PluginKey, to: ReplyTo, payload: Value) {
        if self.open_requests.get(&to) == Some(&plugin) {
            effects.after.push(Effect::Respond { to, payload });
        }
    }

    /// Sends the last response to a request, if it is this plugin's and still open.
    fn answer(
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
    fn refuse_requests(&mut self, effects: &mut Effects, gone: &[(PluginKey, Arc<str>)]) {
        const ENOSYS: i32 = 38;
        for (key, name) in gone {
            for (to, _) in self.open_requests.extract_if(|_, plugin| plugin == key) {
                let text = format!("plugin {name} was removed before it answered");
                let result = Err(RequestError::new(ENOSYS, text));
                effects.after.push(Effect::Reply { to, result });
            }
        }
    }
}
