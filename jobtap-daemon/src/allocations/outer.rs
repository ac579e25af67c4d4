//! What is asked of an outer job manager, and what it says.

use super::program::ProgramError;

/// An allocation to order. It isn't shown: the invitation has a secret.
#[derive(Clone)]
pub(super) struct Order {
    /// Its name outside, by which it is found again.
    pub(super) name: String,
    /// What the table adds, word by word.
    pub(super) options: Vec<String>,
    pub(super) nodes: u32,
    /// The cores of each node.
    pub(super) cores: u32,
    /// The GPUs of each node.
    pub(super) gpus: u32,
    /// The time limit in seconds.
    pub(super) time_limit: Option<f64>,
    /// What its nodes need to join, for the user's eyes alone.
    pub(super) invitation: String,
}

/// An allocation that is looked for: by its name, and by its id outside if that is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) job: Option<String>,
}

/// A job of the outer manager that has the name of an allocation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) job: String,
    pub(super) state: OuterState,
}

/// How far a job of the outer manager has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OuterState {
    /// It waits, for this reason.
    Waits(String),
    /// It runs, until this time (UNIX seconds).
    Runs(Option<f64>),
    /// It is being ended. The reason will be known when it has ended.
    Ending(String),
    /// It has ended, for this reason.
    Ended(String),
}

/// An allocation was not ordered.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// The outer manager refuses it.
    #[error("{0}")]
    Refused(String),
    /// Whether the outer manager has taken the order isn't known.
    #[error("{0}")]
    Unclear(String),
}

impl From<ProgramError> for OrderError {
    fn from(error: ProgramError) -> Self {
        match error {
            // Nothing has run.
            ProgramError::Start { .. } => Self::Refused(error.to_string()),
            _ => Self::Unclear(error.to_string()),
        }
    }
}

/// An outer job manager.
pub(super) trait OuterManager {
    /// Its name, for people.
    fn title(&self) -> &str;

    /// Orders an allocation, and returns its id.
    fn order(&self, order: &Order) -> impl Future<Output = Result<String, OrderError>>;

    /// Looks for allocations. Those that aren't found are left out.
    fn look(&self, wanted: &[Wanted]) -> impl Future<Output = Result<Vec<Found>, ProgramError>>;

    /// Cancels an allocation, waiting or running.
    fn cancel(&self, job: &str) -> impl Future<Output = Result<(), ProgramError>>;

    /// An allocation is over.
    fn forget(&self, _name: &str) {}
}
