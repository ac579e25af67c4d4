//! The jobtap job manager as a library: daemon, commands, store and execution.
//!
//! A custom manager is a binary that names its plugin crates and calls [`main`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! // use jobtap_builtins as _;
//! // use my_plugin as _;
//! fn main() -> ExitCode {
//!     jobtap_manager::main()
//! }
//! ```

mod allocator;
#[cfg(feature = "tools")]
mod bench;
#[cfg(feature = "tools")]
pub mod build;
mod cli;
pub mod client;
mod columns;
pub mod composition;
#[cfg(feature = "tools")]
mod recorded;
#[cfg(feature = "tools")]
mod simulate;

pub use cli::{main, main_of};
pub use jobtap_daemon::{archive, daemon, exec, rpc, store};

use jobtap_daemon::{
    clock, files, limited, linked, locale, open_files, rlimits, shown, stderr, users,
};
