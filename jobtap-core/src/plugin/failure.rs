//! How a handler says no: to a submitter, to a configuration, or to the log.

use std::fmt::Display;

use super::service::ServiceError;

/// A refusal with the sentence that the user reads. For gates: `job.validate`,
/// `job.dependency.SCHEME`.
///
/// Any error converts with `?`; its text becomes the sentence.
///
/// ```
/// use jobtap_core::plugin::Reject;
///
/// fn check(ntasks: u64) -> Result<(), Reject> {
///     if ntasks > 8 {
///         return Err(Reject::new(format!("{ntasks} tasks are more than the 8 of this cluster")));
///     }
///     Ok(())
/// }
/// assert_eq!(check(9).unwrap_err().text(), "9 tasks are more than the 8 of this cluster");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject(String);

impl Reject {
    /// A refusal with this sentence for the user.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Refuses with this sentence if so.
    ///
    /// ```
    /// use jobtap_core::plugin::Reject;
    ///
    /// fn check(ntasks: u64) -> Result<(), Reject> {
    ///     Reject::when(ntasks > 8, "no more than 8 tasks here")?;
    ///     Reject::when(ntasks == 7, "seven is one too few")
    /// }
    /// assert_eq!(check(9).unwrap_err().text(), "no more than 8 tasks here");
    /// assert_eq!(check(8), Ok(()));
    /// ```
    ///
    /// # Errors
    /// If so.
    pub fn when(refused: bool, text: impl Into<String>) -> Result<(), Self> {
        if refused { Err(Self::new(text)) } else { Ok(()) }
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<E: std::error::Error> From<E> for Reject {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A fault in a handler of a state topic: it is logged with plugin and topic, and the job goes on.
///
/// Any error converts with `?`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn run(r: &ResourceSet) -> Result<(), HandlerError> {
///     if r.nnodes() > 1000 {
///         return Err(HandlerError::new("more nodes than the switch can tell apart"));
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError(String);

impl HandlerError {
    /// A fault with this text for the log.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(error.to_string())
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
