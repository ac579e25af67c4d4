//! The jobtap SDK and engine.
//!
//! A plugin author starts at [`prelude`] and [`jobtap_plugin`](macro@jobtap_plugin); what a handler
//! may take, return and call is in [`plugin`], the moments at which it is called in [`topic`](mod@topic).
//! [`testing`] runs plugins in virtual time. A manager is built on [`engine`].
//!
//! ```
//! use jobtap_core::prelude::*;
//!
//! #[derive(Default)]
//! struct Nice;
//!
//! #[jobtap_plugin(name = "nice")]
//! impl Nice {
//!     #[on("job.state.priority", "job.priority.get")]
//!     fn priority(&self, job: &Job) -> Priority {
//!         Priority::new(u32::from(job.urgency().value()) * 100)
//!     }
//! }
//! ```
//!
//! This crate does no I/O and reads no clock.

// So that the code that `#[jobtap_plugin]` makes works inside this crate too.
extern crate self as jobtap_core;

pub mod engine;
pub mod eventlog;
pub mod host;
pub mod job;
pub mod jobspec;
mod json_text;
mod json_type;
pub mod plugin;
pub mod prelude;
pub mod queue;
pub mod resource;
pub mod sched;
pub mod settings;
pub mod simulation;
pub mod slurm;
pub mod testing;
pub mod topic;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// The version of this SDK. Macro and core must be of one version, and a binary holds one SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

pub use jobtap_macros::{data, init, jobtap_plugin, on, service, topic};
pub use jobtap_topics::suggest;
