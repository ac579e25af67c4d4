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

#[cfg(not(feature = "other-allocator"))]
mod allocator;
#[cfg(feature = "tools")]
mod bench;
mod cli;
pub mod client;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use cli::foreign;

pub use cli::{main, main_of};
pub use jobtap_daemon::{archive, composition, daemon, exec, output_pack, rpc, store};

use jobtap_daemon::{
    clock, columns, files, limited, linked, locale, open_files, process_group, rlimits, shown,
    stderr, users,
};
