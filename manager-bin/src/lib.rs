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

pub mod bench;
pub mod build;
mod cli;
pub mod client;
pub mod daemon;
pub mod exec;
pub mod rpc;
pub mod store;

pub use cli::{main, main_of};
