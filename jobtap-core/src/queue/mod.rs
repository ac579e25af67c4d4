//! Named queues (RFC 33): what the configuration says of them, and whether they take and start jobs.
//!
//! Pure values. The engine keeps one [`Queues`], changes it as administrators ask, and stores what
//! must outlive it; plugins read it through [`Cx::queues`](crate::plugin::Cx::queues).
//!
//! | file | what it holds |
//! |---|---|
//! | `policy` | `[policy]` and `[queues.NAME.policy]`: defaults, limits, scheduler |
//! | `config` | `[queues]` as a whole, and how its tables must fit together |
//! | `queues` | all queues, and one as others see it |
//! | `admin` | enable, disable, start, stop; a new configuration |
//! | `checkpoint` | what is kept over a restart |
//! | `adjust` | what a queue adds to a job at its submission |

mod adjust;
mod admin;
mod checkpoint;
mod config;
mod error;
mod policy;
mod queues;
mod table;

pub use adjust::AdjustError;
pub use admin::Target;
pub use checkpoint::CheckpointError;
pub(crate) use checkpoint::VERSION;
pub use error::{QueueConfigError, QueueError};
pub use policy::{JobSize, Limits, Policy};
pub use queues::{Queue, Queues};
pub(crate) use table::kind;
