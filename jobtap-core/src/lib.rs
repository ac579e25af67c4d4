//! The jobtap SDK and engine.
//!
//! A plugin author starts at [`prelude`] and [`jobtap_plugin`](macro@jobtap_plugin); [`plugin`] shows
//! what a handler may take, return and call, and [`topic`](mod@topic) when it is called. [`testing`] runs
//! plugins in virtual time. A manager is built on [`engine`].
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

// Makes the code that `#[jobtap_plugin]` generates work inside this crate too.
extern crate self as jobtap_core;

pub mod engine;
pub mod host;
pub mod job;
pub mod plugin;
pub mod prelude;
pub mod sched;
pub mod simulation;
pub mod slurm;
pub mod testing;
pub mod topic;

pub use jobtap_domain::{eventlog, jobspec, queue, resource, settings};
use jobtap_domain::{json_text, json_type};

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// The version of this SDK. The macros and the core must have the same version, and a binary contains
/// only one SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

pub use jobtap_macros::{data, init, jobtap_plugin, on, service, topic};
pub use jobtap_topics::suggest;
pub use json_type::json_type;
