//! Failures of plugins, as a host sees them, and [`Gone`], the failure of a host that a plugin sees.

use std::any::Any;
use std::fmt::Display;

use super::is_error::IsError;
use crate::host::values::service::ServiceError;
use crate::slurm::SlurmError;

/// Why a handler did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The handler refused, at a topic that decides about the job; the text is for the user.
    Reject(String),
    /// The handler refused a request with a Slurm error.
    Slurm(SlurmError),
    /// The handler failed; the text is for the log.
    Error(String),
    /// A service refused; the error is for the client.
    Refused(ServiceError),
    /// The host did not pass what the topic promises; the text names it.
    Input(&'static str),
}

impl Failure {
    /// The text of the failure.
    pub fn text(&self) -> &str {
        match self {
            Failure::Reject(text) | Failure::Error(text) => text,
            Failure::Slurm(error) => error.message().unwrap_or(error.text()),
            Failure::Refused(error) => &error.text,
            Failure::Input(what) => what,
        }
    }
}

/// The refusal of a configuration. If `#[init]` returns it, the load of the plugin fails; if a handler of
/// `conf.update` does, the reload of the configuration fails. The text is for the administrator.
///
/// `?` converts any other [`std::error::Error`] into it.
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
///         return Err(ConfError::new("low: must not be greater than high"));
///     }
///     Ok(())
/// }
/// assert!(check(&Settings { low: 2, high: 1 }).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfError(String);

impl ConfError {
    /// Makes a refusal; the text names the key and says what it must be.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text for the administrator.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl ConfError {
    /// Prefixes the text with the name of the table.
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

impl<E: IsError> From<E> for ConfError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Display for ConfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The plugin was removed, or the manager stopped, before the awaited value arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plugin was removed or the manager stopped")]
pub struct Gone;

/// A plugin has panicked, with this message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

impl Panicked {
    /// A panic that was caught.
    pub fn from_panic(panic: &(dyn Any + Send)) -> Self {
        Self(panic_text(panic))
    }
}

/// Why an asynchronous handler has no answer. The text is for the user of the job.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AsyncError {
    /// The handler has returned an error with this text.
    #[error("{0}")]
    Returned(String),
    /// The future has panicked.
    #[error("{work} {panicked}")]
    Panicked {
        /// The plugin and the handler.
        work: String,
        /// The message of the panic.
        panicked: Panicked,
    },
    /// The future has not finished within the handler's `timeout`.
    #[error("{work}: no end after {seconds} s")]
    TimedOut {
        /// The plugin and the handler.
        work: String,
        /// The limit.
        seconds: f64,
    },
}

/// The message of a panic, if it is a string. If it is a library's message that doesn't say what to do in a
/// plugin, a hint follows.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    match HINTS.iter().find(|(part, _)| text.contains(part)) {
        Some((_, hint)) => format!("{text}: {hint}"),
        None => text,
    }
}

/// Parts of panic messages, each with what to do instead.
const HINTS: [(&str, &str); 4] = [
    (
        "there is no reactor running",
        "a handler has no runtime of tokio: start work with `remote.spawn(..)`, wait with `remote.sleep(..)`, and \
         run programs with `remote.run_process(..)`",
    ),
    (
        "Cannot start a runtime from within a runtime",
        "a future can't wait by `block_on`: write `.await`, or let `remote.blocking(..)` wait",
    ),
    (
        "Cannot block the current thread from within a runtime",
        "a future can't wait by a blocking call: write `.await`, or let `remote.blocking(..)` wait",
    ),
    (
        "TryFromIntError",
        "the number is out of range; `Priority::clamped(..)` makes a priority of any number",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_library_says_what_to_do_in_a_plugin() {
        let text = |panic: &str| panic_text(&panic.to_owned());
        let tokio =
            "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
        assert!(text(tokio).contains("with `remote.spawn(..)`"), "{}", text(tokio));
        let number = u32::try_from(-1).map_err(|error| format!("{error:?}")).unwrap_err();
        assert!(text(&number).contains("`Priority::clamped(..)`"), "{}", text(&number));
        assert_eq!(text("no such model"), "no such model");
    }
}
