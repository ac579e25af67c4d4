//! What a host gets from a plugin that did not succeed.

use std::any::Any;
use std::fmt::Display;

use super::service::ServiceError;

/// What a host gets from a handler that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A gate refused; the text is for the user.
    Reject(String),
    /// The handler failed; the text is for the log.
    Error(String),
    /// A service refused; the error is for who asked.
    Refused(ServiceError),
    /// The host gave no such input as the topic promises; the text names it.
    Input(&'static str),
}

impl Failure {
    /// The text, whatever the kind.
    pub fn text(&self) -> &str {
        match self {
            Failure::Reject(text) | Failure::Error(text) => text,
            Failure::Refused(error) => &error.text,
            Failure::Input(what) => what,
        }
    }
}

/// A configuration that a plugin can't work with. From `#[init]` it fails the load, from
/// `conf.update` the reload; the text goes to who asked.
///
/// ```
/// # use jobtap_core::prelude::*;
/// #[derive(Deserialize)]
/// struct Settings {
///     low: u64,
///     high: u64,
/// }
///
/// fn check(settings: &Settings) -> Result<(), ConfError> {
///     if settings.low > settings.high {
///         return Err(ConfError::new("low is above high: exchange them"));
///     }
///     Ok(())
/// }
/// assert!(check(&Settings { low: 2, high: 1 }).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfError(String);

impl ConfError {
    /// A refusal; name the key and what it must be.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl ConfError {
    /// The same refusal with the name of the table that it is about.
    ///
    /// ```
    /// use jobtap_core::plugin::ConfError;
    ///
    /// let error = ConfError::new("no command specified").in_table("site.checks");
    /// assert_eq!(error.text(), "[site.checks]: no command specified");
    /// ```
    pub fn in_table(self, name: &str) -> Self {
        Self(format!("[{name}]: {}", self.0))
    }
}

impl<E: std::error::Error> From<E> for ConfError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Display for ConfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The plugin was unloaded, or the manager stopped, before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plugin was unloaded or the manager stopped")]
pub struct Gone;

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
