//! Jobs, jobspecs, resources, eventlogs and queues, as pure values: each has a text form, and is checked by property
//! tests. Nothing here knows of plugins or of an engine.
//!
//! Authors of plugins depend on `jobtap-core`, which re-exports all of it that they need. Some functions are for the
//! engine alone; they are hidden from the documentation.

pub mod allocation;
pub mod array;
pub mod eventlog;
pub mod job;
pub mod jobspec;
#[doc(hidden)]
pub mod json_text;
pub mod json_type;
pub mod queue;
pub mod resource;
mod schemas;
pub mod settings;

use jobtap_topics::suggest;
