//! The adapter, which makes a Flux job manager a host of plugins.
//!
//! Flux calls one function of the adapter for each topic that its plugins need. The adapter calls their
//! handlers as our own engine does: in stack order; a handler's commands are carried out when it has
//! returned and before the next one is called; a panic is caught; and a gate that fails refuses.
//!
//! | file | content |
//! |---|---|
//! | `load` | building the plugins, and registering the topics of Flux that they need |
//! | `topics` | a call by Flux: its topic, its arguments and its answer |
//! | `known` | the mirror of the jobs; prologs and epilogs that a restart or a reload left open |
//! | `frame` | one callback: the host that its handler sees, and its commands |
//! | `queued` | a command, and the plugin that asked for it |
//! | `commands` | carrying out commands by calling Flux |
//! | `data` | the data of plugins, in memory and in the KVS |
//! | `later` | timers, work that comes back to a plugin, asynchronous handlers |
//! | `services` | requests to plugins |
//! | `rpcs` | requests of plugins |
//! | `faults` | plugins that keep panicking; removal |

mod commands;
mod data;
mod faults;
mod frame;
mod known;
mod later;
mod load;
mod queued;
mod rpcs;
mod services;
mod topics;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use jobtap_core::engine::Mirror;
use jobtap_core::host::{PluginDescriptor, PluginKey, RemoteWork, ReplyTo, Stack, Ticks};
use jobtap_core::job::{JobId, Uid};
use jobtap_core::plugin::{Level, Perilog};
use jobtap_core::queue::Queues;
use jobtap_core::resource::ResourceSet;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

use crate::flux::Flux;
use crate::inbox::Inbox;
use crate::runtime::Workers;
use data::Store;
use later::Timers;
use queued::Queued;
use rpcs::Rpcs;

#[cfg(test)]
pub(crate) use load::topics;
pub use load::{LoadError, check_topics};
pub(crate) use load::{chosen, linked, load_order};

/// The answer to a call by Flux.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// Set if the call fails, with the text for `errmsg`. If the topic is a gate, Flux refuses the job or the request.
    pub refusal: Option<String>,
    /// The priority; −2 if it isn't known yet.
    pub priority: Option<i64>,
    /// Other members of the output object.
    pub out: Map<String, Value>,
}

/// The plugins of one file in one job manager.
pub struct Adapter<F: Flux> {
    flux: F,
    owner: Uid,
    /// The plugins in the order in which they are loaded. They are built at the first `conf.update`.
    linked: Vec<&'static PluginDescriptor>,
    stack: RefCell<Stack>,
    mirror: RefCell<Mirror>,
    instance: RefCell<Instance>,
    inbox: Arc<Inbox>,
    runtime: OnceCell<Box<dyn Workers>>,
    store: RefCell<Store>,
    timers: RefCell<Timers>,
    open: RefCell<Open>,
    ticks: Ticks,
    /// The number of nested calls by Flux: carrying out a command may cause further calls.
    depth: Cell<usize>,
    /// The commands of callbacks that are nested too deeply. They are carried out when the outermost has ended.
    put_off: RefCell<VecDeque<(&'static str, Queued)>>,
    /// The jobs of the nested calls, and the annotations that their callbacks have asked for.
    answers: RefCell<Vec<(JobId, Map<String, Value>)>>,
    next_key: Cell<u64>,
    /// Whether the current callback has read a whole jobspec.
    opened: known::Opened,
    is_built: Cell<bool>,
}

/// What the adapter knows about the instance.
struct Instance {
    config: Rc<Value>,
    queues: Rc<Queues>,
    resources: Rc<ResourceSet>,
}

/// Unfinished business of plugins that the mirror doesn't contain.
#[derive(Default)]
struct Open {
    /// The plugins that have subscribed to a job's events.
    subscribers: FxHashMap<JobId, Vec<PluginKey>>,
    /// Dependencies whose addition was posted but not applied yet.
    additions: FxHashSet<(JobId, String)>,
    /// Dependencies whose removal was posted but not applied yet.
    removals: FxHashSet<(JobId, String)>,
    /// Prologs and epilogs that were open before a restart.
    left: FxHashMap<JobId, Vec<Left>>,
    /// Work to be run at the end of a job.
    at_end: FxHashMap<JobId, Vec<(PluginKey, RemoteWork)>>,
    /// Requests that are answered later.
    requests: FxHashMap<ReplyTo, Request>,
    /// Requests of plugins that wait for their responses.
    rpcs: Rpcs,
    /// Commands for accepted jobs whose submission Flux hasn't stored yet.
    held: FxHashMap<JobId, Vec<(&'static str, Queued)>>,
    /// Epilogs to be started once the job is in CLEANUP.
    epilogs: FxHashMap<JobId, Vec<(PluginKey, String)>>,
    /// The times of each plugin's panics within the last period.
    panics: FxHashMap<PluginKey, Vec<f64>>,
    /// The messages about unsupported calls of plugins that have been logged.
    unserved: BTreeSet<String>,
    /// A job that Flux has passed. It is used to distinguish a removal from the end of the job manager.
    seen: Option<JobId>,
}

/// A request that a plugin answers later.
#[derive(Debug, Clone, Copy)]
struct Request {
    plugin: PluginKey,
    streaming: bool,
}

/// A prolog or epilog that was open before a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Left {
    kind: Perilog,
    what: String,
    plugin: String,
}

/// A call by Flux, which is counted until this is dropped, even by a panic.
struct Nested<'a, F: Flux>(&'a Adapter<F>);

impl<F: Flux> Drop for Nested<'_, F> {
    fn drop(&mut self) {
        let depth = self.0.depth.get() - 1;
        self.0.depth.set(depth);
        if depth == 0 {
            self.0.answers.borrow_mut().clear();
        }
    }
}

impl<F: Flux> Drop for Adapter<F> {
    /// Closes the inbox. Work that is left in it may hold a reference to the inbox, so that neither would be freed.
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl<F: Flux> fmt::Debug for Adapter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("stack", &self.stack).finish_non_exhaustive()
    }
}

impl<F: Flux> Adapter<F> {
    /// Creates an adapter for these plugins. They are built when Flux first calls `conf.update`, which is part of
    /// loading the file: there an error in the configuration gets a text that the administrator sees.
    pub fn new(flux: F, linked: Vec<&'static PluginDescriptor>, inbox: Arc<Inbox>) -> Self {
        let owner = flux.attribute("security.owner").and_then(|owner| owner.parse().ok());
        let (coarse, precise) = crate::clock::ticks();
        let ticks = Ticks::new(coarse, precise);
        ticks.calls().set_thread();
        Self {
            flux,
            owner: Uid(owner.unwrap_or(0)),
            linked,
            stack: RefCell::default(),
            mirror: RefCell::default(),
            instance: RefCell::new(Instance {
                config: Rc::new(Value::Object(Map::new())),
                queues: Rc::new(load::queues(&Value::Object(Map::new()))),
                resources: Rc::default(),
            }),
            inbox,
            runtime: OnceCell::new(),
            store: RefCell::default(),
            timers: RefCell::default(),
            open: RefCell::default(),
            ticks,
            depth: Cell::new(0),
            put_off: RefCell::default(),
            answers: RefCell::default(),
            next_key: Cell::new(1),
            opened: known::Opened::default(),
            is_built: Cell::new(false),
        }
    }

    /// Returns the functions of Flux.
    pub fn flux(&self) -> &F {
        &self.flux
    }

    /// Sets the resources of the instance to the value of `resource.R` in the KVS.
    pub fn set_resources(&self, resources: &Value) {
        match ResourceSet::from_value(resources) {
            Ok(resources) => self.instance.borrow_mut().resources = Rc::new(resources),
            Err(error) => self.log(Level::Warning, &format!("resource.R: {error}")),
        }
    }

    /// Counts a nested call until the result is dropped.
    fn nested(&self) -> Nested<'_, F> {
        self.depth.set(self.depth.get() + 1);
        Nested(self)
    }

    fn log(&self, level: Level, text: &str) {
        self.flux.log(level, text);
    }

    /// Returns the messages about unsupported calls that plugins have made since the last time.
    pub fn take_unserved(&self) -> Vec<String> {
        std::mem::take(&mut self.open.borrow_mut().unserved).into_iter().collect()
    }

    /// Returns the name of a plugin, for messages.
    fn name(&self, key: PluginKey) -> Arc<str> {
        let stack = self.stack.borrow();
        stack.get(key).map_or_else(|| Arc::from("a removed plugin"), |p| Arc::clone(p.name()))
    }
}
