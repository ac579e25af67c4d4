//! Named queues (RFC 33): their configuration, and whether they accept and start jobs.
//!
//! The engine owns one [`Queues`], changes it on the requests of administrators, and stores the part that
//! must survive a restart. Plugins read it through `Cx::queues`.

mod adjust;
mod config;
mod fluxion;
mod queues;

pub use adjust::AdjustError;
pub use config::{Access, AccessLists, JobSize, Limits, Policy, QueueConfigError};
pub use queues::{CheckpointError, Queue, QueueError, Queues, Target};
pub use queues::{VERSION, is_same_queue};
