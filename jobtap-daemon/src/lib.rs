//! The jobtap job manager without its commands: daemon, services, store and execution.
//!
//! `jobtap-manager` adds the commands, re-exports this crate, and is what a custom manager links. This crate compiles at
//! the same time as the dependencies that only the commands need.

pub mod allocations;
pub mod archive;
pub mod clock;
pub mod columns;
pub mod composition;
pub mod daemon;
pub mod exec;
mod fatal_signals;
pub mod files;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod foreign;
pub mod limited;
pub mod linked;
pub mod locale;
pub mod open_files;
pub mod output_pack;
pub mod process_group;
mod processes;
pub mod rlimits;
pub mod rpc;
pub mod shown;
pub mod stderr;
pub mod store;
pub mod users;
