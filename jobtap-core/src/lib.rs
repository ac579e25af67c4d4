//! The jobtap SDK and engine.

pub mod eventlog;
pub mod job;
pub mod jobspec;
pub mod resource;
