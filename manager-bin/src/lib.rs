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

mod bench;
pub mod build;
mod cli;
pub mod client;
mod recorded;
mod simulate;

pub use cli::{main, main_of};
pub use jobtap_daemon::{archive, daemon, exec, rpc, store};

use jobtap_daemon::{clock, files, limited, linked, open_files, rlimits, shown, stderr, users};

/// Jobs are allocated on one thread and freed on another, in many sizes and for days. With the system's
/// allocator that took a fifth of the time per job, and memory became fragmented.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
