//! The errors that handlers return, for the submitter or for the log.

use std::fmt;

use crate::host::IsError;

/// Converts errors that `?` doesn't convert, since they aren't a [`std::error::Error`], by their text: an
/// `anyhow::Error`, a `Box<dyn Error>`, or a plain string.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// fn budget(bank: &str) -> Result<u64, Box<dyn std::error::Error>> {
///     Ok(std::fs::read_to_string(bank)?.trim().parse()?)
/// }
///
/// fn validate(job: &Job) -> Result<(), Reject> {
///     let left = budget("/etc/budget").or_reject()?;
///     Reject::when(left == 0, "the budget is used up")
/// }
///
/// fn run(cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
///     let left = budget("/etc/budget").or_error()?;
///     cx.log(Level::Info, format!("{left} hours are left"));
///     Ok(())
/// }
/// ```
pub trait ResultExt<T> {
    /// Makes the text of the error the sentence for the user.
    ///
    /// # Errors
    /// A [`Reject`] with the text of the error.
    fn or_reject(self) -> Result<T, Reject>;

    /// Makes the text of the error an error that `?` converts into any error of the SDK.
    ///
    /// # Errors
    /// A [`TextError`] with the text of the error.
    fn or_error(self) -> Result<T, TextError>;
}

impl<T, E: fmt::Display> ResultExt<T> for Result<T, E> {
    // For `anyhow::Error`, the alternate form includes all causes.
    fn or_reject(self) -> Result<T, Reject> {
        self.map_err(|error| Reject::new(format!("{error:#}")))
    }

    fn or_error(self) -> Result<T, TextError> {
        self.map_err(|error| TextError(format!("{error:#}")))
    }
}

/// An error that is a text, from [`ResultExt::or_error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(String);

/// The refusal of a job or of a change to it, with the sentence that the user reads. Handlers of
/// `job.validate`, `job.dependency.SCHEME` and `job.update.KEY` return it.
///
/// `?` converts any other [`std::error::Error`] into it; the sentence is then that error's text.
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
    /// Makes a refusal with this sentence for the user.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns `Err(Reject)` when `refused` is true.
    ///
    /// ```
    /// use jobtap_core::plugin::Reject;
    ///
    /// fn check(ntasks: u64) -> Result<(), Reject> {
    ///     Reject::when(ntasks > 8, "no more than 8 tasks here")?;
    ///     Reject::when(ntasks == 7, "7 tasks can't be placed")
    /// }
    /// assert_eq!(check(9).unwrap_err().text(), "no more than 8 tasks here");
    /// assert_eq!(check(8), Ok(()));
    /// ```
    ///
    /// # Errors
    /// A refusal with this sentence when `refused` is true.
    pub fn when(refused: bool, text: impl Into<String>) -> Result<(), Self> {
        if refused { Err(Self::new(text)) } else { Ok(()) }
    }

    /// The sentence for the user.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<E: IsError> From<E> for Reject {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The failure of a handler at a topic where it doesn't decide about the job: it is logged with plugin
/// and topic, and the job goes on. Handlers of `job.state.*` and `job.event.*` return it.
///
/// `?` converts any other [`std::error::Error`] into it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn run(r: &ResourceSet) -> Result<(), HandlerError> {
///     if r.nnodes() > 1000 {
///         return Err(HandlerError::new("more nodes than the switch has ports"));
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError(String);

impl HandlerError {
    /// Makes a failure with this text for the log.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text for the log.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The text, so that a timer can log the error: it has no caller to return it to.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: IsError> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The failure of an asynchronous handler of `job.state.run`: its prolog has failed, which ends the job
/// with a fatal exception of type `prolog` and this note.
///
/// `?` converts any other [`std::error::Error`] into it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Nodes;
/// #[jobtap_plugin(name = "nodes")]
/// impl Nodes {
///     #[on("job.state.run", timeout = "2m")]
///     async fn check(r: ResourceSet, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let hosts = r.nodelist().to_string();
///         let done = remote.run_process(Process::new("check-nodes").arg(&hosts)).await?;
///         done.success().map_err(|how| PrologFailed::new(format!("a node of {hosts} failed the check: {how}")))
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrologFailed(String);

/// The failure of an asynchronous handler of `job.state.cleanup`: its epilog has failed, which raises a
/// fatal exception of type `epilog` with this note.
///
/// `?` converts any other [`std::error::Error`] into it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Scratch;
/// #[jobtap_plugin(name = "scratch")]
/// impl Scratch {
///     #[on("job.state.cleanup", on_restart = "rerun")]
///     async fn scrub(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
///         let scrub = Process::new("scrub-scratch").arg(job.id.to_string());
///         let done = remote.run_process(scrub).await?;
///         done.success().map_err(|how| EpilogFailed::new(how.to_string()))
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpilogFailed(String);

macro_rules! failures {
    ($($name:ident)*) => { $(
        impl $name {
            /// Makes a failure with this note for the user.
            pub fn new(note: impl Into<String>) -> Self {
                Self(note.into())
            }

            /// The note for the user.
            pub fn text(&self) -> &str {
                &self.0
            }
        }

        impl<E: IsError> From<E> for $name {
            fn from(error: E) -> Self {
                Self(error.to_string())
            }
        }
    )* };
}
failures!(PrologFailed EpilogFailed);
