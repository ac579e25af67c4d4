//! The loaded plugins, and which of their handlers a topic reaches.
//!
//! A host calls a topic by going through [`Stack::handlers`] and calling each [`Bound`]. The lists
//! are made when plugins come and go, so that a call only walks one; a list that is being walked
//! stays as it was.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::callback::Args;
use super::descriptor::{HandlerEntry, HandlerFn, PluginDescriptor};
use super::failure::{Failure, panic_text};
use super::meter::{HandlerStats, Meter, Ticks};
use super::outcome::Outcome;
use super::remote::{PluginKey, RemoteHandle};
use crate::topic::TopicId;

/// One loaded plugin.
pub struct Instance {
    key: PluginKey,
    name: Arc<str>,
    listed: Box<str>,
    descriptor: &'static PluginDescriptor,
    /// Borrowed while a handler runs: a plugin is never called while it is being called.
    slot: RefCell<Box<dyn Any>>,
    remote: RemoteHandle,
    meters: Vec<Rc<Meter>>,
    faulted: Cell<bool>,
    removed: Cell<bool>,
}

impl Instance {
    /// Takes a plugin in, which lists show as `listed`.
    pub fn new(
        descriptor: &'static PluginDescriptor,
        listed: &str,
        plugin: Box<dyn Any>,
        remote: RemoteHandle,
    ) -> Self {
        Self {
            key: remote.plugin(),
            name: Arc::clone(remote.shared_name()),
            listed: listed.into(),
            descriptor,
            slot: RefCell::new(plugin),
            remote,
            meters: descriptor.handlers.iter().map(|_| Rc::new(Meter::new())).collect(),
            faulted: Cell::new(false),
            removed: Cell::new(false),
        }
    }

    /// Which loading of which plugin it is.
    pub fn key(&self) -> PluginKey {
        self.key
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The name by which it was loaded, as lists show it: that of a file where Flux has one.
    pub fn listed_as(&self) -> &str {
        &self.listed
    }

    /// What was linked.
    pub fn descriptor(&self) -> &'static PluginDescriptor {
        self.descriptor
    }

    /// The way back to it.
    pub fn remote(&self) -> &RemoteHandle {
        &self.remote
    }

    /// It panicked too often and is not called any more.
    pub fn is_faulted(&self) -> bool {
        self.faulted.get()
    }

    /// Takes it out of service.
    pub fn set_faulted(&self) {
        self.faulted.set(true);
    }

    /// It was taken off the stack while a list of handlers still had it.
    pub fn is_removed(&self) -> bool {
        self.removed.get()
    }

    /// What its handlers did so far.
    pub fn stats(&self) -> Vec<HandlerStats> {
        let entries = self.descriptor.handlers.iter().zip(&self.meters);
        entries.map(|(entry, meter)| meter.stats(entry.full_name(), entry.method)).collect()
    }

    /// Calls into the plugin outside of any topic. `None` when it is being called.
    pub fn with<R>(&self, call: impl FnOnce(&mut dyn Any) -> R) -> Option<Result<R, String>> {
        let mut slot = self.slot.try_borrow_mut().ok()?;
        let result = catch_unwind(AssertUnwindSafe(|| call(&mut **slot)));
        Some(result.map_err(|panic| panic_text(&*panic)))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A handler bound to its plugin.
#[derive(Debug, Clone)]
pub struct Bound {
    instance: Rc<Instance>,
    entry: &'static HandlerEntry,
    /// Beside the entry, so that a call follows one pointer less.
    call: HandlerFn,
    meter: Rc<Meter>,
    watches: bool,
}

impl Instance {
    /// Its handler of `unload`, which it has also when it is off the stack.
    pub fn unload(self: &Rc<Self>) -> Option<Bound> {
        let mut entries = self.descriptor.handlers.iter().zip(&self.meters);
        let (entry, meter) = entries.find(|(entry, _)| entry.id == TopicId::Unload)?;
        let (call, meter) = (entry.call, Rc::clone(meter));
        Some(Bound { instance: Rc::clone(self), entry, call, meter, watches: false })
    }
}

/// How a handler ended that did not succeed.
#[derive(Debug)]
pub enum Fault {
    /// It said no, or failed.
    Failure(Failure),
    /// It panicked with this message.
    Panic(String),
    /// Its plugin is being called already: nothing happened.
    Busy,
}

/// What a handler decided, or how it failed; boxed, since that is rare.
pub type Called = Result<Outcome, Box<Fault>>;

impl Bound {
    /// Its plugin.
    pub fn instance(&self) -> &Rc<Instance> {
        &self.instance
    }

    /// Its plugin's key.
    pub fn plugin(&self) -> PluginKey {
        self.instance.key
    }

    /// The handler.
    pub fn entry(&self) -> &'static HandlerEntry {
        self.entry
    }

    /// It only watches, as a handler of `job.*`: it makes nothing supported.
    pub fn watches(&self) -> bool {
        self.watches
    }

    /// Whether it is out of service: its plugin is faulted, or removed since the list was made.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.instance.faulted.get() || self.instance.removed.get()
    }

    /// Calls the handler; gives the milliseconds that it took by the host's coarse clock. A panic is
    /// the caller's to catch and to note: see [`panicked`](Self::panicked).
    #[inline]
    pub fn call_uncaught(&self, args: &Args<'_>, ticks: &Ticks) -> (Called, u64) {
        let Ok(mut slot) = self.instance.slot.try_borrow_mut() else {
            return (Err(Box::new(Fault::Busy)), 0);
        };
        let running = self.meter.start(ticks);
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

    /// Notes that the handler panicked.
    pub fn panicked(&self, panic: &(dyn Any + Send)) -> Box<Fault> {
        self.meter.panic();
        Box::new(Fault::Panic(panic_text(panic)))
    }

    /// Calls the handler. A panic is caught.
    pub fn call(&self, args: &Args<'_>, ticks: &Ticks) -> (Called, u64) {
        catch_unwind(AssertUnwindSafe(|| self.call_uncaught(args, ticks)))
            .unwrap_or_else(|panic| (Err(self.panicked(&*panic)), 0))
    }
}

/// A list of handlers in load order.
pub type Handlers = Rc<[Bound]>;

/// The loaded plugins in load order.
#[derive(Debug)]
pub struct Stack {
    plugins: Vec<Rc<Instance>>,
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
    /// The plugins.
    pub fn plugins(&self) -> &[Rc<Instance>] {
        &self.plugins
    }

    /// A plugin by its key, as long as it is loaded.
    pub fn get(&self, key: PluginKey) -> Option<&Rc<Instance>> {
        self.plugins.iter().find(|plugin| plugin.key == key)
    }

    /// A plugin by its name.
    pub fn find(&self, name: &str) -> Option<&Rc<Instance>> {
        self.plugins.iter().find(|plugin| &*plugin.name == name)
    }

    /// Puts a plugin at the end.
    pub fn push(&mut self, plugin: Instance) {
        self.plugins.push(Rc::new(plugin));
        self.bind();
    }

    /// Takes out the plugins for which `leaves` is true.
    pub fn remove(&mut self, leaves: impl Fn(&Instance) -> bool) -> Vec<Rc<Instance>> {
        let gone: Vec<_> = self.plugins.extract_if(.., |plugin| leaves(plugin)).collect();
        for plugin in &gone {
            plugin.removed.set(true);
        }
        self.bind();
        gone
    }

    /// Puts a plugin in the place of another one, which is given back.
    pub fn replace(&mut self, old: &Rc<Instance>, new: Instance) -> Option<Rc<Instance>> {
        let slot = self.plugins.iter_mut().find(|plugin| plugin.key == old.key)?;
        let old = std::mem::replace(slot, Rc::new(new));
        old.removed.set(true);
        self.bind();
        Some(old)
    }

    /// Undoes [`replace`](Self::replace): the plugin of this key gives its place back.
    pub fn put_back(&mut self, new: PluginKey, old: Rc<Instance>) -> Option<Rc<Instance>> {
        let slot = self.plugins.iter_mut().find(|plugin| plugin.key == new)?;
        old.removed.set(false);
        let new = std::mem::replace(slot, old);
        new.removed.set(true);
        self.bind();
        Some(new)
    }

    /// The handlers that a call of this topic reaches, in load order. Of a family, such as
    /// `job.event.*`, these are the handlers of all its members: see [`members`](Self::members).
    #[inline]
    pub fn handlers(&self, topic: TopicId) -> Option<&Handlers> {
        self.topics.get(topic.index())
    }

    /// Whether a call of this topic reaches anything.
    #[inline]
    pub fn handles(&self, topic: TopicId) -> bool {
        self.handlers(topic).is_some_and(|handlers| !handlers.is_empty())
    }

    /// The handlers of one member of a family, such as `afterok` of `job.dependency.*`, for the
    /// plugins that `asks` lets through: in each plugin the handler of this very member beats the
    /// one of all.
    pub fn members(
        &self,
        topic: TopicId,
        member: &str,
        asks: impl Fn(PluginKey) -> bool,
    ) -> Handlers {
        let mut found: Vec<Bound> = Vec::new();
        for bound in self.handlers(topic).into_iter().flat_map(|list| list.iter()) {
            let exact = bound.entry.key == member;
            if !(exact || bound.entry.key == "*" || bound.watches) || !asks(bound.plugin()) {
                continue;
            }
            match found.last_mut().filter(|last| last.plugin() == bound.plugin()) {
                None => found.push(bound.clone()),
                Some(last) if rank(bound, member) > rank(last, member) => *last = bound.clone(),
                Some(_) => {}
            }
        }
        found.into()
    }

    /// The handlers of an author's own topic.
    pub fn own(&self, name: &str) -> Handlers {
        let named = |bound: &&Bound| bound.entry.topic == name;
        let all = self.handlers(TopicId::Own).into_iter().flat_map(|list| list.iter());
        all.filter(named).cloned().collect()
    }

    fn bind(&mut self) {
        let mut topics = vec![Vec::new(); TopicId::COUNT + 1];
        for plugin in &self.plugins {
            bind_plugin(plugin, &mut topics);
        }
        self.topics = topics.into_iter().map(Handlers::from).collect();
    }
}

/// How closely a handler names the member that is called.
fn rank(bound: &Bound, member: &str) -> u8 {
    match bound.entry.key {
        _ if bound.watches => 0,
        "*" => 1,
        key if key == member => 2,
        _ => 0,
    }
}

/// Adds a plugin's handlers to the lists: its wildcards where it has nothing more specific.
fn bind_plugin(plugin: &Rc<Instance>, topics: &mut [Vec<Bound>]) {
    let bound = |index: usize, entry: &'static HandlerEntry, watches| Bound {
        instance: Rc::clone(plugin),
        entry,
        call: entry.call,
        meter: plugin.meters.get(index).map_or_else(|| Rc::new(Meter::new()), Rc::clone),
        watches,
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
            list.truncate(before);
            continue;
        }
        let specific = list.len() > before;
        if let (Some((index, entry)), true, false) =
            (states, info.name.starts_with("job.state."), specific)
        {
            list.push(bound(index, entry, false));
        } else if let (Some((index, entry)), true) = (all, info.name.starts_with("job."))
            // Of a family there may be handlers of other members.
            && (keyed || !specific)
        {
            list.push(bound(index, entry, true));
        }
    }
}
