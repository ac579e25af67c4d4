//! The loaded plugins, and their handlers by topic.
//!
//! A host dispatches a topic by calling each [`BoundHandler`] of [`Stack::handlers`]. These lists are
//! made when a plugin is loaded or removed, so that a dispatch only walks one. A list that is being
//! walked doesn't change: a dispatch under way skips the plugins that are removed meanwhile
//! ([`BoundHandler::is_out_of_service`]).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::callback::Args;
use super::command::work_description;
use super::errors::failure::{Failure, Panicked, panic_text};
use super::linked::descriptor::{HandlerEntry, HandlerFn, PluginDescriptor};
use super::metering::meter::{HandlerStats, Meter, Ticks};
use super::off_thread::remote::{PluginKey, RemoteHandle};
use super::outcome::Outcome;
use crate::job::Job;
use crate::jobspec::Dependency;
use crate::topic::TopicId;

/// One loaded plugin.
pub struct LoadedPlugin {
    key: PluginKey,
    name: Arc<str>,
    listed: Box<str>,
    descriptor: &'static PluginDescriptor,
    /// Borrowed while a handler runs, since a plugin is not called while it is being called.
    slot: RefCell<Box<dyn Any>>,
    remote: RemoteHandle,
    /// The configuration that was given when it was loaded.
    given: Option<Value>,
    meters: Vec<Rc<Meter>>,
    /// Meters the calls outside of any topic: timers and other closures of `Remote`.
    later: Meter,
    faulted: Cell<bool>,
    removed: Cell<bool>,
}

impl LoadedPlugin {
    /// A newly built plugin, which lists show as `listed`.
    pub fn new(
        descriptor: &'static PluginDescriptor,
        listed: &str,
        plugin: Box<dyn Any>,
        remote: RemoteHandle,
    ) -> Self {
        let meter = |topic: &str| meter(&remote, topic);
        let meter_of = |entry: &HandlerEntry| Rc::new(meter(&entry.full_name()));
        Self {
            meters: descriptor.handlers.iter().map(meter_of).collect(),
            later: meter("later"),
            key: remote.plugin(),
            name: Arc::clone(remote.shared_name()),
            listed: listed.into(),
            descriptor,
            slot: RefCell::new(plugin),
            remote,
            given: None,
            faulted: Cell::new(false),
            removed: Cell::new(false),
        }
    }

    /// The key of this loading of the plugin.
    pub fn key(&self) -> PluginKey {
        self.key
    }

    /// The plugin's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The name by which it was loaded, as lists show it. As in Flux, it may be a file name.
    pub fn listed_as(&self) -> &str {
        &self.listed
    }

    /// The same plugin, with the configuration that was given when it was loaded.
    #[must_use]
    pub fn with_given(self, given: Option<Value>) -> Self {
        Self { given, ..self }
    }

    /// The configuration that was given when it was loaded, which overrides the plugin's table.
    pub fn given(&self) -> Option<&Value> {
        self.given.as_ref()
    }

    /// The plugin's descriptor.
    pub fn descriptor(&self) -> &'static PluginDescriptor {
        self.descriptor
    }

    /// The handle by which work outside the manager's thread reaches the plugin.
    pub fn remote(&self) -> &RemoteHandle {
        &self.remote
    }

    /// Whether the plugin is faulted: it has panicked too often and is not called any more.
    pub fn is_faulted(&self) -> bool {
        self.faulted.get()
    }

    /// Marks the plugin as faulted.
    pub fn set_faulted(&self) {
        self.faulted.set(true);
    }

    /// Whether the plugin was removed from the stack. A list that is being walked may still contain it.
    pub fn is_removed(&self) -> bool {
        self.removed.get()
    }

    /// The counts of its handlers.
    pub fn stats(&self) -> Vec<HandlerStats> {
        let entries = self.descriptor.handlers.iter().zip(&self.meters);
        let handlers = entries.map(|(entry, meter)| meter.stats(entry.full_name(), entry.method));
        let later = self.later.stats("later".to_owned(), "remote");
        let later = (later.calls > 0).then_some(later);
        handlers.chain(later).chain(self.remote.polls().stats()).collect()
    }

    /// Calls a closure with the plugin, outside of any topic. Returns `None` when the plugin is being
    /// called, a panic as `Err`, and the milliseconds that the call took by the coarse clock.
    pub fn call_outside_topics<R>(
        &self,
        ticks: &Ticks,
        call: impl FnOnce(&mut dyn Any) -> R,
    ) -> Option<(Result<R, Panicked>, u64)> {
        let mut slot = self.slot.try_borrow_mut().ok()?;
        let running = self.later.start(ticks, None);
        let result = catch_unwind(AssertUnwindSafe(|| call(&mut **slot)));
        let milliseconds = self.later.stop(&running, ticks);
        if result.is_err() {
            self.later.panic();
        }
        Some((result.map_err(|panic| Panicked::from_panic(&*panic)), milliseconds))
    }
}

/// Makes the meter of a handler, and assigns the handler its number.
fn meter(remote: &RemoteHandle, topic: &str) -> Meter {
    Meter::new(remote.ticks().calls().number(remote.name(), topic))
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPlugin").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A handler bound to its plugin.
#[derive(Debug, Clone)]
pub struct BoundHandler {
    instance: Rc<LoadedPlugin>,
    entry: &'static HandlerEntry,
    /// A copy of `entry.call`, so that a call follows one pointer less.
    call: HandlerFn,
    meter: Rc<Meter>,
    only_observes: bool,
}

impl LoadedPlugin {
    /// The plugin's handler of `unload`. It is called before a removed plugin leaves the stack, or after a
    /// reloaded plugin has replaced this one.
    pub fn unload_handler(self: &Rc<Self>) -> Option<BoundHandler> {
        let mut entries = self.descriptor.handlers.iter().zip(&self.meters);
        let (entry, meter) = entries.find(|(entry, _)| entry.id == TopicId::Unload)?;
        let (call, meter) = (entry.call, Rc::clone(meter));
        Some(BoundHandler { instance: Rc::clone(self), entry, call, meter, only_observes: false })
    }
}

/// Why a call of a handler did not succeed.
#[derive(Debug)]
pub enum Fault {
    /// The handler returned an error.
    Failure(Failure),
    /// The handler panicked with this message.
    Panic(String),
    /// The plugin is being called already, so the handler was not called.
    Busy,
}

impl From<Panicked> for Fault {
    fn from(Panicked(text): Panicked) -> Self {
        Self::Panic(text)
    }
}

/// The outcome of a handler, or why it failed. The latter is boxed, since it is rare and outcomes are
/// returned by value.
pub type CallResult = Result<Outcome, Box<Fault>>;

impl BoundHandler {
    /// The plugin.
    pub fn instance(&self) -> &Rc<LoadedPlugin> {
        &self.instance
    }

    /// The plugin's key.
    pub fn plugin(&self) -> PluginKey {
        self.instance.key
    }

    /// The handler's entry in the descriptor.
    pub fn entry(&self) -> &'static HandlerEntry {
        self.entry
    }

    /// The description of the handler's asynchronous work: `PLUGIN.METHOD`, and for a dependency
    /// `PLUGIN.METHOD=SCHEME:VALUE`.
    pub fn work_description(&self, dependency: Option<&Dependency>) -> String {
        work_description(&self.instance.name, self.entry.method, dependency)
    }

    /// Whether this is a handler of `job.*`, which only observes: it doesn't make a key of `job.update.*` or a
    /// scheme of `job.dependency.*` supported.
    pub fn only_observes(&self) -> bool {
        self.only_observes
    }

    /// Whether it is a handler of `job.state.priority` that decides: jobs wait for its priority.
    pub fn sets_priority(&self) -> bool {
        // A handler of `job.state.*` is in the list, too.
        self.entry.id == TopicId::JobStatePriority && self.entry.returns_value
    }

    /// Whether the handler must not be called: its plugin is faulted, or was removed since the list was
    /// made.
    #[inline]
    pub fn is_out_of_service(&self) -> bool {
        self.instance.faulted.get() || self.instance.removed.get()
    }

    /// Calls the handler. Returns the outcome, and the milliseconds that the call took by the host's coarse
    /// clock. The caller catches panics, once for a whole dispatch, and reports them to
    /// [`panicked`](Self::panicked).
    // Always inlined: it is the body of the loop over all handlers of a topic, and a separate function call
    // costs a tenth of the time of a handler that only reads.
    #[inline(always)]
    pub fn call_uncaught(&self, args: &Args<'_>, ticks: &Ticks) -> (CallResult, u64) {
        // Fails for a plugin that calls an author's own topic which it handles itself, directly or through
        // other plugins.
        let Ok(mut slot) = self.instance.slot.try_borrow_mut() else {
            return (Err(Box::new(Fault::Busy)), 0);
        };
        let running = self.meter.start(ticks, args.job.map(Job::id));
        let result = (self.call)(&mut **slot, args);
        let milliseconds = self.meter.stop(&running, ticks);
        match result {
            Ok(outcome) => (Ok(outcome), milliseconds),
            Err(failure) => {
                self.meter.error();
                (Err(Box::new(Fault::Failure(*failure))), milliseconds)
            }
        }
    }

    /// Counts a panic of the handler, and returns it as a fault.
    pub fn panicked(&self, panic: &(dyn Any + Send)) -> Box<Fault> {
        self.meter.panic();
        Box::new(Fault::Panic(panic_text(panic)))
    }

    /// Calls the handler, and catches a panic.
    pub fn call(&self, args: &Args<'_>, ticks: &Ticks) -> (CallResult, u64) {
        let before = ticks.calls().now();
        catch_unwind(AssertUnwindSafe(|| self.call_uncaught(args, ticks))).unwrap_or_else(|panic| {
            ticks.calls().end(before);
            (Err(self.panicked(&*panic)), 0)
        })
    }
}

/// Handlers in stack order.
pub type Handlers = Rc<[BoundHandler]>;

/// The loaded plugins in stack order.
#[derive(Debug)]
pub struct Stack {
    plugins: Vec<Rc<LoadedPlugin>>,
    topics: Vec<Handlers>,
}

impl Default for Stack {
    fn default() -> Self {
        let mut stack = Self { plugins: Vec::new(), topics: Vec::new() };
        stack.bind();
        stack
    }
}

impl Stack {
    /// The loaded plugins.
    pub fn plugins(&self) -> &[Rc<LoadedPlugin>] {
        &self.plugins
    }

    /// A loaded plugin by its key.
    pub fn get(&self, key: PluginKey) -> Option<&Rc<LoadedPlugin>> {
        self.plugins.iter().find(|plugin| plugin.key == key)
    }

    /// A loaded plugin by its name.
    pub fn find(&self, name: &str) -> Option<&Rc<LoadedPlugin>> {
        self.plugins.iter().find(|plugin| &*plugin.name == name)
    }

    /// Adds a plugin at the end, and returns it.
    pub fn push(&mut self, plugin: LoadedPlugin) -> Rc<LoadedPlugin> {
        let plugin = Rc::new(plugin);
        self.plugins.push(Rc::clone(&plugin));
        self.bind();
        plugin
    }

    /// Removes the plugins for which `leaves` is true, and returns them.
    pub fn remove(&mut self, leaves: impl Fn(&LoadedPlugin) -> bool) -> Vec<Rc<LoadedPlugin>> {
        let removed: Vec<_> = self.plugins.extract_if(.., |plugin| leaves(plugin)).collect();
        for plugin in &removed {
            // A dispatch under way may still have its handlers in a list.
            plugin.removed.set(true);
        }
        self.bind();
        removed
    }

    /// Puts a plugin in the position of another one, and returns the latter.
    pub fn replace(
        &mut self,
        old: &Rc<LoadedPlugin>,
        new: LoadedPlugin,
    ) -> Option<Rc<LoadedPlugin>> {
        let slot = self.plugins.iter_mut().find(|plugin| plugin.key == old.key)?;
        let old = std::mem::replace(slot, Rc::new(new));
        old.removed.set(true);
        self.bind();
        Some(old)
    }

    /// Undoes [`replace`](Self::replace): puts the old plugin in the position of the new one, and returns the
    /// latter.
    pub fn put_back(&mut self, new: PluginKey, old: Rc<LoadedPlugin>) -> Option<Rc<LoadedPlugin>> {
        let slot = self.plugins.iter_mut().find(|plugin| plugin.key == new)?;
        old.removed.set(false);
        let new = std::mem::replace(slot, old);
        new.removed.set(true);
        self.bind();
        Some(new)
    }

    /// The handlers of a topic, in stack order. For a family, such as `job.event.*`, they are the handlers of
    /// all members: see [`members`](Self::members).
    #[inline]
    pub fn handlers(&self, topic: TopicId) -> Option<&Handlers> {
        self.topics.get(topic.index())
    }

    /// Whether the topic has handlers.
    #[inline]
    pub fn handles(&self, topic: TopicId) -> bool {
        self.handlers(topic).is_some_and(|handlers| !handlers.is_empty())
    }

    /// The handlers of one member of a family, such as `afterok` of `job.dependency.*`, of the plugins for
    /// which `includes` is true. In each plugin the handler of this member takes precedence over the one for
    /// all members.
    pub fn members(
        &self,
        topic: TopicId,
        member: &str,
        includes: impl Fn(PluginKey) -> bool,
    ) -> Handlers {
        let mut found: Vec<BoundHandler> = Vec::new();
        for bound in self.handlers(topic).into_iter().flat_map(|list| list.iter()) {
            let exact = bound.entry.key == member;
            if !(exact || bound.entry.key == "*" || bound.only_observes)
                || !includes(bound.plugin())
            {
                continue;
            }
            // The handlers of one plugin follow each other in the list, so looking at the last is enough.
            match found.last_mut().filter(|last| last.plugin() == bound.plugin()) {
                None => found.push(bound.clone()),
                Some(last) if precedence(bound, member) > precedence(last, member) => {
                    *last = bound.clone()
                }
                Some(_) => {}
            }
        }
        found.into()
    }

    /// The handlers of an author's own topic.
    pub fn own(&self, name: &str) -> Handlers {
        let named = |bound: &&BoundHandler| bound.entry.topic == name;
        let all = self.handlers(TopicId::Unlisted).into_iter().flat_map(|list| list.iter());
        all.filter(named).cloned().collect()
    }

    fn bind(&mut self) {
        // The last list is for authors' own topics, which share one id.
        let mut topics = vec![Vec::new(); TopicId::COUNT + 1];
        for plugin in &self.plugins {
            bind_plugin(plugin, &mut topics);
        }
        self.topics = topics.into_iter().map(Handlers::from).collect();
    }
}

/// The precedence of a handler for this member.
fn precedence(bound: &BoundHandler, member: &str) -> u8 {
    match bound.entry.key {
        _ if bound.only_observes => 0,
        "*" => 1,
        key if key == member => 2,
        _ => 0,
    }
}

/// Adds a plugin's handlers to the lists of their topics, and its wildcard handlers to the lists of the topics
/// for which it has no more specific handler.
fn bind_plugin(plugin: &Rc<LoadedPlugin>, topics: &mut [Vec<BoundHandler>]) {
    let bound = |index: usize, entry: &'static HandlerEntry, only_observes| BoundHandler {
        instance: Rc::clone(plugin),
        entry,
        call: entry.call,
        meter: plugin
            .meters
            .get(index)
            .map_or_else(|| Rc::new(meter(plugin.remote(), &entry.full_name())), Rc::clone),
        only_observes,
    };
    let entries = || plugin.descriptor.handlers.iter().enumerate();
    let wildcard = |id| entries().find(|(_, entry)| entry.id == id);
    let (all, states) = (wildcard(TopicId::JobAny), wildcard(TopicId::JobState));
    for (slot, list) in topics.iter_mut().enumerate() {
        let own = entries().filter(|(_, entry)| entry.id.index() == slot);
        let before = list.len();
        list.extend(own.map(|(index, entry)| bound(index, entry, false)));
        let Some(info) = crate::topic::TOPICS.get(slot) else {
            continue;
        };
        let keyed = info.name.ends_with(".*");
        let is_wildcard = matches!(info.type_name, "JobState" | "JobAny");
        if is_wildcard {
            // Nothing calls a wildcard itself: its handlers are in the lists of the topics it stands for.
            list.truncate(before);
            continue;
        }
        let specific = list.len() > before;
        if let (Some((index, entry)), true, false) =
            (states, info.name.starts_with("job.state."), specific)
        {
            list.push(bound(index, entry, false));
        } else if let (Some((index, entry)), true) = (all, info.name.starts_with("job."))
            // The specific handlers of a family may be for other members.
            && (keyed || !specific)
        {
            list.push(bound(index, entry, true));
        }
    }
}
