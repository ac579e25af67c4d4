//! The adapter: a job manager of Flux as the host of plugins.
//!
//! Flux calls the adapter's one callback for each topic that its plugins need. The adapter goes through their
//! handlers as our own engine does: in stack order, what a handler asked for is carried out when it has
//! returned and before the next one is called, a panic is caught, and a gate that fails refuses.
//!
//! | file | what it holds |
//! |---|---|
//! | `load` | the plugins are built from the configuration, and which topics of Flux they need |
//! | `topics` | a callback of Flux: its topic, its arguments, and what is answered |
//! | `known` | the jobs as the adapter mirrors them; what a restart or a reload left open |
//! | `frame` | one callback of one handler: what it reads, and what it asks for |
//! | `queued` | a command, and the plugin that asked for it |
//! | `commands` | what handlers asked for, as calls of Flux |
//! | `data` | the data of plugins, in memory and in the KVS |
//! | `later` | timers, work that comes back to a plugin, asynchronous handlers |
//! | `services` | requests to plugins |
//! | `faults` | plugins that keep panicking; removal |

mod commands;
mod data;
mod faults;
mod frame;
mod known;
mod later;
mod load;
mod queued;
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

#[cfg(test)]
pub(crate) use load::topics;
pub use load::{LoadError, check_topics};
pub(crate) use load::{chosen, linked, load_order};

/// What a callback of Flux answers.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The callback failed: of a gate, the job or the request is refused. The text stands under `errmsg`.
    pub refusal: Option<String>,
    /// The priority: −2 when it isn't known yet.
    pub priority: Option<i64>,
    /// Other members of the arguments that are returned.
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
    /// How many callbacks are on the machine's stack: what one asks for may cause others.
    depth: Cell<usize>,
    /// Commands of callbacks that are nested too deeply. They are carried out when the outermost has ended.
    put_off: RefCell<VecDeque<(&'static str, Queued)>>,
    /// The annotations that the callbacks under way have asked for, with their jobs.
    answers: RefCell<Vec<(JobId, Map<String, Value>)>>,
    next_key: Cell<u64>,
    /// Whether the present callback has read a jobspec as a whole.
    opened: known::Opened,
    is_built: Cell<bool>,
}

/// What is known of the instance.
struct Instance {
    config: Rc<Value>,
    queues: Rc<Queues>,
    resources: Rc<ResourceSet>,
}

/// What is open with plugins, beside what the mirror has.
#[derive(Default)]
struct Open {
    /// The plugins that subscribed to a job's events.
    subscribers: FxHashMap<JobId, Vec<PluginKey>>,
    /// Dependencies whose addition was posted and not applied yet.
    additions: FxHashSet<(JobId, String)>,
    /// Dependencies whose removal was posted and not applied yet.
    removals: FxHashSet<(JobId, String)>,
    /// Prologs and epilogs that plugins of these names had open before a restart.
    left: FxHashMap<JobId, Vec<Left>>,
    /// Work for the end of a job.
    at_end: FxHashMap<JobId, Vec<(PluginKey, RemoteWork)>>,
    /// Requests that are answered later.
    requests: FxHashMap<ReplyTo, Request>,
    /// What was asked for on jobs that are accepted, and whose submission Flux has not stored yet.
    held: FxHashMap<JobId, Vec<(&'static str, Queued)>>,
    /// Epilogs that are started once the job is in CLEANUP.
    epilogs: FxHashMap<JobId, Vec<(PluginKey, String)>>,
    /// The times of each plugin's panics within the last period.
    panics: FxHashMap<PluginKey, Vec<f64>>,
    /// The calls that plugins made and Flux doesn't serve, in words.
    unserved: BTreeSet<String>,
    /// A job that Flux has shown, to tell a removal from the end of the job manager.
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

/// A callback that is on the machine's stack. Also one that a panic leaves is counted out.
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
    /// Work that nothing takes out any more holds the inbox that it is in, so that neither would be freed.
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
    /// An adapter for these plugins. They are built when Flux first calls `conf.update`, which it does as part
    /// of the load: then an error in the configuration has a text that its administrator reads.
    pub fn new(flux: F, linked: Vec<&'static PluginDescriptor>, inbox: Arc<Inbox>) -> Self {
        let owner = flux.attribute("security.owner").and_then(|owner| owner.parse().ok());
        let (coarse, precise) = crate::clock::ticks();
        let ticks = Ticks::new(coarse, precise);
        ticks.calls().are_on_this_thread();
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

    /// The functions of Flux.
    pub fn flux(&self) -> &F {
        &self.flux
    }

    /// Takes over the resources of the instance, as they are in the KVS under `resource.R`.
    pub fn set_resources(&self, resources: &Value) {
        match ResourceSet::from_value(resources) {
            Ok(resources) => self.instance.borrow_mut().resources = Rc::new(resources),
            Err(error) => self.log(Level::Warning, &format!("resource.R: {error}")),
        }
    }

    /// Counts a callback for as long as the result lives.
    fn nested(&self) -> Nested<'_, F> {
        self.depth.set(self.depth.get() + 1);
        Nested(self)
    }

    fn log(&self, level: Level, text: &str) {
        self.flux.log(level, text);
    }

    /// The calls that plugins have made and that Flux doesn't serve, since the last call.
    pub fn take_unserved(&self) -> Vec<String> {
        std::mem::take(&mut self.open.borrow_mut().unserved).into_iter().collect()
    }

    /// The name of a loaded plugin, for messages.
    fn name(&self, key: PluginKey) -> Arc<str> {
        let stack = self.stack.borrow();
        stack.get(key).map_or_else(|| Arc::from("a removed plugin"), |p| Arc::clone(p.name()))
    }
}
