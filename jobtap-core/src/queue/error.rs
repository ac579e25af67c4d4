//! Why a configuration of queues is refused, and why a request to a queue is. The texts are Flux's.

/// Why `[policy]` and `[queues]` can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueConfigError {
    /// Something in one table is wrong.
    #[error("error parsing [{table}] config table: {text}")]
    Table {
        /// The table's name, dotted.
        table: String,
        /// What is wrong there.
        text: String,
    },
    /// The default queue is none.
    #[error("the [policy] config table defines a default queue {0} that is not in [queues] table")]
    DefaultQueue(String),
}

/// Why a queue can't be had, or doesn't do what is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// There is no queue of this name.
    #[error("'{0}' is not a valid queue")]
    Unknown(String),
    /// There are named queues only, and none was named.
    #[error("a named queue is required")]
    NameRequired,
    /// A change of all queues must be meant so.
    #[error("Use --all to apply this command to all queues")]
    AllRequired,
    /// Users must be told why their jobs are refused.
    #[error("reason is required for disable")]
    ReasonRequired,
    /// The anonymous queue takes no jobs.
    #[error("job submission is disabled: {0}")]
    Disabled(String),
    /// A named queue takes no jobs.
    #[error("job submission to {name} is disabled: {reason}")]
    QueueDisabled {
        /// The queue.
        name: String,
        /// Why.
        reason: String,
    },
}
