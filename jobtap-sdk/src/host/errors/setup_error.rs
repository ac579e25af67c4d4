//! Building a plugin with its configuration and showing it a new one, as far as this is the same in every host.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::failure::{Failure, panic_text};
use crate::host::linked::descriptor::{InitArgs, PluginDescriptor};
use crate::host::stack::Fault;

/// Why a plugin can't be built with its configuration, or doesn't accept a new one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// `[plugins.NAME]` is not a table.
    #[error("[plugins.{0}] must be a table")]
    NoTable(String),
    /// The configuration that was given at load is not an object. The text is Flux's, with its spelling.
    #[error("jobptap: plugin conf must be a JSON object")]
    NoObject,
    /// The plugin takes no configuration, and its table has a key.
    #[error("[plugins.{plugin}]: unknown key {key:?}: this plugin takes no configuration")]
    UnknownKey {
        /// The plugin.
        plugin: &'static str,
        /// The first key of its table.
        key: String,
    },
    /// The plugin refuses the configuration, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The plugin refuses the configuration without a word.
    #[error("config rejected by {0} jobtap plugin")]
    Rejected(String),
    /// `#[init]` panicked with this message.
    #[error("#[init] panicked: {0}")]
    InitPanicked(String),
    /// The handler of `conf.update` panicked with this message.
    #[error("conf.update panicked: {0}")]
    UpdatePanicked(String),
}

impl SetupError {
    /// The error for a fault in the handler of `conf.update` of this plugin.
    ///
    /// ```
    /// use jobtap_core::host::{Failure, Fault, SetupError};
    ///
    /// let refused = Fault::Failure(Failure::Reject("most: must be 1 or more".into()));
    /// let error = SetupError::of_update("limits", refused);
    /// assert_eq!(error.to_string(), "most: must be 1 or more");
    /// let error = SetupError::of_update("limits", Fault::Busy);
    /// assert_eq!(error.to_string(), "config rejected by limits jobtap plugin");
    /// ```
    #[must_use]
    pub fn of_update(plugin: &str, fault: Fault) -> Self {
        match fault {
            Fault::Failure(Failure::Reject(text)) if !text.is_empty() => Self::Refused(text),
            Fault::Failure(_) | Fault::Busy => Self::Rejected(plugin.to_owned()),
            Fault::Panic(text) => Self::UpdatePanicked(text),
        }
    }
}

impl PluginDescriptor {
    /// Builds an instance of the plugin, and catches a panic of its `#[init]`.
    ///
    /// # Errors
    /// The plugin takes no configuration and its table has a key, or its `#[init]` refuses the configuration or
    /// panics.
    pub fn build(&self, args: &InitArgs<'_>) -> Result<Box<dyn Any>, SetupError> {
        let first_key = args.conf.as_object().and_then(|table| table.keys().next());
        if let Some(key) = first_key.filter(|_| (self.schema)().is_none()) {
            return Err(SetupError::UnknownKey { plugin: self.name, key: key.clone() });
        }
        match catch_unwind(AssertUnwindSafe(|| (self.new)(args))) {
            Ok(built) => built.map_err(|error| SetupError::Refused(error.text().to_owned())),
            Err(panic) => Err(SetupError::InitPanicked(panic_text(&*panic))),
        }
    }
}
