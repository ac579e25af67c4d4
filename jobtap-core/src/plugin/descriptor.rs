//! A plugin as the registry knows it: a name, how it is built, and a table of handlers.

use std::any::Any;
use std::fmt;

use super::call::Args;
use super::conf::InitArgs;
use super::failure::{ConfError, Failure};
use super::outcome::Outcome;

/// The version of this SDK. Macro and core must be of one version, and a binary holds one SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A linked plugin; `#[jobtap_plugin]` makes it.
pub struct PluginDescriptor {
    /// The name that users see; builtins begin with a dot.
    pub name: &'static str,
    /// The crate that it comes from.
    pub crate_name: &'static str,
    /// That crate's version.
    pub crate_version: &'static str,
    /// The SDK that it was compiled with.
    pub sdk: &'static str,
    /// Whether linking it loads it.
    pub load: Load,
    /// Plugins that are to be called after this one, where they are linked.
    pub before: &'static [&'static str],
    /// Plugins that are to be called before this one, where they are linked.
    pub after: &'static [&'static str],
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

/// Whether a linked plugin is loaded when the manager starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Linked is loaded.
    Auto,
    /// Only when the configuration or an administrator names it.
    ByName,
}

/// One handler of a plugin at one topic.
pub struct HandlerEntry {
    /// The topic, or its family: `job.dependency.*`.
    pub topic: &'static str,
    /// The member of the family, such as `afterok`; `*` is every member. Empty without a family.
    pub key: &'static str,
    /// The method's name, for messages.
    pub method: &'static str,
    /// Calls it.
    pub call: HandlerFn,
}

/// Calls one handler of a plugin instance.
pub type HandlerFn = for<'a> fn(&mut dyn Any, Args<'a>) -> Result<Outcome, Failure>;

impl fmt::Debug for HandlerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] -> {}", self.topic, self.key, self.method)
    }
}
