//! The library that MPI programs load as `libpmi.so` or `libpmi2.so`.
//!
//! It speaks version 1 of PMI's wire protocol over the socket that `PMI_FD` names, also for the functions of PMI 2. A
//! process without that variable is alone: it stores the values that it puts in its own memory.
//!
//! It is compiled without the standard library and allocates nothing, so that it is small and loads into a program with
//! any libc. Invalid arguments from C callers and invalid responses from the other end of the socket lead to one of
//! PMI's error codes. Only [`ffi`] contains unsafe code; the rest is ordinary Rust without an operation that panics.
//!
//! | file | |
//! |---|---|
//! | `ffi/` | the functions of the two headers, accesses through C pointers, and the C functions that are called |
//! | `process.rs` | a process: one of a job's tasks, or alone |
//! | `client.rs` | requests and their responses |
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
