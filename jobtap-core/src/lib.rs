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

pub mod simulation;
pub mod testing;

#[doc(inline)]
pub use jobtap_engine as engine;
#[doc(hidden)]
pub use jobtap_sdk::{__jobtap_register, __jobtap_register_scheduler, __private};
#[doc(inline)]
pub use jobtap_sdk::{
    SDK_VERSION, allocation, array, data, event_name, eventlog, host, init, job, jobspec,
    jobtap_plugin, json_type, on, path, plugin, prelude, queue, resource, sched, scheduler,
    service, settings, severity, slurm, suggest, topic,
};
