//! Why a host of the test kit has not done what a test asked for: as data, and as the text that a user would read.

use std::fmt;

use crate::engine::{RequestError, RestoreError, StartError};
use crate::host::RegistryError;
use crate::job::{JobId, State, UrgencyError};
use crate::jobspec::JobspecError;
use crate::resource::{HostlistError, ResourceError};
use crate::slurm::SlurmError;

/// Why a request of a test had no success. It compares with a `str`, so that a test can write down the text that a
/// user would read, and a failed `unwrap` shows that text with the errno.
///
/// ```
/// use jobtap_core::prelude::*;
/// use jobtap_core::testing::{Refused, TestJob, TestManager};
///
/// #[derive(Default)]
/// struct NoRoot;
///
/// #[jobtap_plugin(name = "no-root")]
/// impl NoRoot {
///     #[on("job.validate")]
///     fn check(&self, job: &Job) -> Result<(), Reject> {
///         Reject::when(job.userid() == Uid(0), "not as root")
///     }
/// }
///
/// let mut m = TestManager::new().plugin::<NoRoot>().start();
/// let refused: Refused = m.submit(TestJob::new().user(0)).unwrap_err();
/// assert_eq!(refused, "not as root");
/// assert!(refused.text().contains("root"));
/// assert_eq!(refused.errno(), Some(22));
/// assert_eq!(format!("{refused:?}"), "not as root (errno 22)");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The host or a plugin has answered with an error.
    #[error(transparent)]
    Answer(#[from] RequestError),
    /// Slurm refuses the job.
    #[error("{}", .0.message().unwrap_or(.0.text()))]
    Slurm(SlurmError),
    /// No jobspec can be made from the job.
    #[error(transparent)]
    NoJobspec(#[from] JobspecError),
    /// The urgency of the job is out of range.
    #[error(transparent)]
    BadUrgency(#[from] UrgencyError),
    /// The submission waits: a plugin decides on it later.
    #[error("the submission waits for an answer")]
    SubmissionWaits,
    /// The answer to a submission names no job.
    #[error("the answer has no id")]
    NoId,
    /// There is no answer yet, or the manager has crashed.
    #[error("the manager has not answered")]
    Unanswered,
    /// The manager has crashed.
    #[error("the manager is dead")]
    Dead,
}

impl Refused {
    /// The errno of the answer; `None` if there is no answer, and in Slurm, whose errors are no errnos.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Answer(error) => Some(error.errno),
            _ => None,
        }
    }

    /// Further messages from plugins to the user.
    #[must_use]
    pub fn messages(&self) -> &[String] {
        match self {
            Self::Answer(error) => &error.messages,
            _ => &[],
        }
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match self {
            Self::Answer(error) => write!(f, " (errno {})", error.errno),
            Self::Slurm(error) => write!(f, " (Slurm's error {})", error.code()),
            _ => Ok(()),
        }
    }
}

/// Why a host of the test kit doesn't start or end a job. Like [`Refused`], it compares with a `str`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The job is in another state than the one in which it gets its resources.
    #[error("the job is in {0}")]
    WrongState(State),
    /// A prolog or epilog has failed, or the job has ended by another fatal exception.
    #[error("{note}")]
    Failed {
        /// What is said about it.
        note: String,
    },
    /// The job waits, in the words of [`TestManager::why`](super::TestManager::why).
    #[error("{}", .0.join("; "))]
    Waits(Vec<String>),
    /// The job waits for events of Flux.
    #[error("the job is in {state} and waits for {}", .open.join(", "))]
    WaitsInFlux {
        /// Its state.
        state: State,
        /// The prologs and epilogs that have not finished.
        open: Vec<String>,
    },
    /// Slurm has cancelled the job.
    #[error("the job was cancelled")]
    Cancelled,
    /// A prolog or epilog takes longer than Slurm allows.
    #[error("no end within PrologEpilogTimeout")]
    TimedOut,
    /// Slurm has no job with such an id.
    #[error("{0} is not an id of a job in Slurm")]
    Id(JobId),
}

/// Why a manager under test doesn't start. Like [`Refused`], it compares with a `str`.
///
/// ```
/// use jobtap_core::testing::TestManager;
/// use serde_json::json;
///
/// let m = TestManager::new().config(json!({"policy": {"scheduler": {"queue-policy": "eazy"}}}));
/// let error = m.try_start().unwrap_err();
/// assert!(error.text().starts_with("policy.scheduler.queue-policy: there is no scheduler"));
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ManagerStartError {
    /// The plugins or schedulers can't be linked together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The hosts have no names.
    #[error(transparent)]
    Hosts(#[from] HostlistError),
    /// The resources can't expire when they should.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The engine or a plugin refuses the configuration.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// What is stored about nodes and plugins can't be restored.
    #[error("{0}")]
    Stored(Box<dyn std::error::Error + Send + Sync>),
    /// A stored job can't be restored.
    #[error("job {id} not replayed: {error}")]
    Unreplayed {
        /// The job.
        id: JobId,
        /// Why.
        error: RestoreError,
    },
    /// What is stored about an inactive job contradicts its eventlog.
    #[error("job {id} differs from the state that its eventlog gives:\n{difference}")]
    Summary {
        /// The job.
        id: JobId,
        /// The lines that differ.
        difference: String,
    },
    /// The manager refuses to stop scheduling, which a host of the test kit does first.
    #[error(transparent)]
    Scheduling(#[from] Refused),
}

/// Lets an error be compared and searched as the text that a user would read.
macro_rules! reads_as_text {
    ($($error:ident)*) => { $(
        impl $error {
            /// The text that a user would read.
            #[must_use]
            pub fn text(&self) -> String {
                self.to_string()
            }
        }

        impl PartialEq<str> for $error {
            fn eq(&self, text: &str) -> bool {
                self.text() == text
            }
        }

        impl PartialEq<&str> for $error {
            fn eq(&self, text: &&str) -> bool {
                self == *text
            }
        }

        impl PartialEq<String> for $error {
            fn eq(&self, text: &String) -> bool {
                self == text.as_str()
            }
        }
    )* };
}
reads_as_text!(Refused RunError ManagerStartError);

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for ManagerStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
