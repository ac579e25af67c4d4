//! How a handler says no: to a submitter, to a configuration, or to the log.

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

/// A prolog that failed: ends the job with a fatal exception of type `prolog` and this note.
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
///         done.success().map_err(|how| PrologFailed::new(format!("one of {hosts} is ill: {how}")))
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrologFailed(String);

/// An epilog that failed: a fatal exception of type `epilog` with this note.
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
            /// With this note for the user.
            pub fn new(note: impl Into<String>) -> Self {
                Self(note.into())
            }

            /// The note.
            pub fn text(&self) -> &str {
                &self.0
            }
        }

        impl<E: std::error::Error> From<E> for $name {
            fn from(error: E) -> Self {
                Self(error.to_string())
            }
        }
    )* };
}
failures!(PrologFailed EpilogFailed);
