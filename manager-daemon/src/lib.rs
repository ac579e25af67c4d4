//! The jobtap job manager without its commands: daemon, services, store and execution.
//!
//! `jobtap-manager` puts the commands on top of it, offers what is here under its own name, and is what a custom
//! manager links. The two are apart so that compilers work on both at once: this one is compiled while what only
//! the commands need is.

pub mod archive;
pub mod clock;
pub mod daemon;
pub mod exec;
pub mod files;
pub mod limited;
pub mod linked;
pub mod locale;
pub mod open_files;
pub mod rlimits;
pub mod rpc;
pub mod shown;
pub mod stderr;
pub mod store;
pub mod users;
