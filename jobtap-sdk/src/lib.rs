//! What plugins are written against, and what runs them in any host.
//!
//! [`plugin`] is the interface for authors, [`topic`](mod@topic) has the moments at which plugins are called, and
//! [`host`] is what a host implements. Nothing here knows of an engine: the job manager's is one host, a real Flux and
//! a real Slurm are others.
//!
//! Authors depend on `jobtap-core`, which re-exports all of it, so the examples name that crate. What is hidden from the
//! documentation is for the engine alone.
//!
//! This crate does no I/O and reads no clock.

// Makes the code that `#[jobtap_plugin]` generates work inside this crate too.
extern crate self as jobtap_core;

pub mod host;
pub mod job;
#[doc(hidden)]
pub mod kept;
pub mod plugin;
pub mod prelude;
pub mod sched;
pub mod slurm;
pub mod topic;

#[doc(hidden)]
pub use jobtap_domain::json_text;
pub use jobtap_domain::{allocation, array, eventlog, jobspec, queue, resource, settings};

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// The version of this SDK. The macros and the core must have the same version, and a binary contains
/// only one SDK.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

pub use jobtap_domain::json_type::json_type;
pub use jobtap_macros::{data, init, jobtap_plugin, on, service, topic};
pub use jobtap_topics::suggest;
