//! A plugin as the registry knows it: a name, how it is built, and a table of handlers.

use std::any::Any;
use std::fmt;

use serde_json::Value;

use super::callback::Args;
use super::event_name::same;
use super::failure::{ConfError, Failure};
use super::outcome::Outcome;
use super::remote::RemoteHandle;
use super::service::Role;
use crate::topic::TopicId;

/// A linked plugin; `#[jobtap_plugin]` makes it.
pub struct PluginDescriptor {
    /// The name that users see; builtins begin with a dot.
    pub name: &'static str,
    /// The crate that it comes from.
    pub crate_name: &'static str,
    /// That crate's version.
    pub crate_version: &'static str,
    /// That crate's authors, with colons between them; empty if it names none.
    pub authors: &'static str,
    /// That crate's licence, an SPDX expression; empty if it names none.
    pub license: &'static str,
    /// The SDK that it was compiled with.
    pub sdk: &'static str,
    /// Whether linking it loads it.
    pub load: Load,
    /// Plugins that are to be called after this one, where they are linked.
    pub before: &'static [&'static str],
    /// Plugins that are to be called before this one, where they are linked.
    pub after: &'static [&'static str],
    /// In which order active jobs are shown to it when it is loaded into a running manager.
    pub load_order: LoadOrder,
    /// The JSON Schema of its own configuration, if it takes one.
    pub schema: fn() -> Option<Value>,
    /// Builds an instance.
    pub new: fn(&InitArgs<'_>) -> Result<Box<dyn Any>, ConfError>,
    /// Its handlers.
    pub handlers: &'static [HandlerEntry],
}

impl fmt::Debug for PluginDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginDescriptor")
            .field("name", &self.name)
            .field("crate_name", &self.crate_name)
            .field("crate_version", &self.crate_version)
            .field("load", &self.load)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// What `#[init]` is given.
#[derive(Clone)]
pub struct InitArgs<'a> {
    /// The plugin's name, for messages.
    pub name: &'a str,
    /// The plugin's own table, an object.
    pub conf: &'a Value,
    /// The instance's configuration, an object.
    pub instance_conf: &'a Value,
    /// The way back from work outside the manager's thread.
    pub remote: RemoteHandle,
}

/// Whether a linked plugin is loaded when the manager starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Linked is loaded.
    Auto,
    /// Linked is loaded, after the plugins that the configuration names. One that these replace is
    /// taken out by `{remove = ..}`, as if it were loaded already.
    Last,
    /// When the configuration has a table for it, `[plugins.NAME]` or `[job-manager.NAME]`, at the start or
    /// later, after the plugins that the configuration names.
    Configured,
    /// Only when the configuration or an administrator names it.
    ByName,
}

/// In which order the active jobs are introduced to a plugin that is loaded into a running manager:
/// `#[jobtap_plugin(load_order = "state")]`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Counts { held: u32 }
/// /// Jobs that have resources are counted before those that want some.
/// #[jobtap_plugin(name = "counts", load = "by-name", load_order = "-state")]
/// impl Counts {
///     #[on("job.new")]
///     fn new_job(&mut self, job: &Job) {
///         self.held += u32::from(job.resources().is_some());
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadOrder {
    /// By id.
    #[default]
    None,
    /// By state, from DEPEND to CLEANUP, then by id.
    State,
    /// By state, from CLEANUP to DEPEND, then by id.
    StateReversed,
}

/// What becomes of an asynchronous handler's work that a restart of the manager, or a reload of its
/// plugin, interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRestart {
    /// It begins again.
    Rerun,
    /// It has failed.
    Fail,
}

/// How the work of an asynchronous handler is treated:
/// `#[on("job.state.run", on_restart = "rerun", timeout = "5m", on_cancel = "run-on")]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AsyncPolicy {
    /// After a restart; `None` leaves it to the topic: prologs and epilogs fail, the rest reruns.
    pub on_restart: Option<OnRestart>,
    /// Seconds until it has failed.
    pub timeout: Option<f64>,
    /// It goes on when the job ends first, instead of being dropped.
    pub run_on: bool,
}

/// One handler of a plugin at one topic.
pub struct HandlerEntry {
    /// The topic as a value.
    pub id: TopicId,
    /// The topic, or its family: `job.dependency.*`.
    pub topic: &'static str,
    /// The member of the family, such as `afterok`; `*` is every member. Empty without a family.
    pub key: &'static str,
    /// The method's name, for messages.
    pub method: &'static str,
    /// Who may call it, if it is a service.
    pub role: Role,
    /// Whether it returns something, as far as its return type is written: one that returns `()` only
    /// looks on.
    pub answers: bool,
    /// How its work is treated, if it is asynchronous.
    pub policy: Option<AsyncPolicy>,
    /// Calls it.
    pub call: HandlerFn,
}

impl HandlerEntry {
    /// The topic with its member: `job.dependency.afterok`.
    pub fn full_name(&self) -> String {
        match (self.topic, self.key) {
            ("service", "") => "service".to_owned(),
            ("service", method) => format!("service {method}"),
            (topic, "") => topic.to_owned(),
            (topic, key) => topic.replace('*', key),
        }
    }
}

/// Calls one handler of a plugin instance. A failure is boxed, so that the outcome stays small.
pub type HandlerFn = for<'a> fn(&mut dyn Any, &'a Args<'a>) -> Result<Outcome, Box<Failure>>;

impl fmt::Debug for HandlerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.full_name(), self.method)
    }
}

/// Refuses two handlers of one own topic, at the path by which the second one names it.
///
/// # Panics
/// When it is one: at compile time, in the code that `#[jobtap_plugin]` makes.
#[doc(hidden)]
#[track_caller]
pub const fn differ(one: &str, other: &str) {
    assert!(
        !same(one, other),
        "two handlers of this plugin have the same topic: do both in one function"
    );
}
