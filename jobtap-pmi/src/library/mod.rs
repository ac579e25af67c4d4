//! The library that MPI programs load as `libpmi.so` or `libpmi2.so`.
//!
//! It speaks version 1 of PMI's wire protocol over the socket that `PMI_FD` names, also for the functions of PMI 2. A
//! process without that variable is alone: it keeps what it puts for itself.
//!
//! It is compiled without the standard library and allocates nothing, so that it loads into a program with any libc,
//! and is small. All that C's callers pass, and all that the other end of the socket answers, may be wrong: it leads to
//! one of PMI's error codes. [`ffi`] alone is unsafe; the rest is ordinary Rust without an operation that panics.
//!
//! | file | |
//! |---|---|
//! | `ffi/` | the functions of the two headers, pointers of C, and the functions of C that are used |
//! | `process.rs` | what a process is: with others, or alone |
//! | `client.rs` | requests and their answers |
//! | `alone.rs` | the values of a process that is alone |
//! | `mapping.rs` | which tasks share a node |
//! | `error.rs`, `text.rs` | PMI's error codes; text of a bounded length |

#![cfg_attr(not(test), no_std)]

mod alone;
mod client;
mod error;
mod ffi;
mod mapping;
mod process;
mod text;
