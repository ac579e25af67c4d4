//! The C interface to Slurm: the functions that Slurm calls, and the functions of Slurm that this crate calls.
//!
//! This is the only module with `unsafe` code. Slurm passes pointers to its own memory, which is valid
//! during the call and protected from changes by Slurm's locks. So pointers are dereferenced only during the
//! call and on the thread that makes it, and the adapter gets values.
//!
//! | file | content |
//! |---|---|
//! | `layout` | the offsets of structure members, from the headers of this build |
//! | `canary` | checks that the layout is the daemon's |
//! | `symbols` | functions and variables of the daemon, looked up by name |
//! | `memory` | texts and lists in the daemon's memory |
//! | `structures` | structures as the adapter reads and writes them |
//! | `daemon` | the implementation of `Daemon` |
//! | `entry` | the functions that Slurm calls |
#![allow(unsafe_code)]

mod canary;
mod daemon;
mod entry;
mod layout;
mod memory;
mod structures;
mod symbols;

pub use entry::{
    fini, init_job_submit, init_prep, job_modify, job_submit, prep_epilog, prep_epilog_slurmctld,
    prep_prolog, prep_prolog_slurmctld, prep_register_callbacks, prep_required,
};

/// The version number of the Slurm that the file is built for: `plugin_version`.
pub const VERSION: u32 = layout::VERSION.number();

/// Returns a text and its NUL as an array: `plugin_name` and `plugin_type` are arrays in C.
///
/// # Panics
/// At compile time, if `N` isn't the length of the text plus one.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
pub const fn c_array<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    assert!(bytes.len() + 1 == N);
    let mut array = [0; N];
    let mut next = 0;
    while next < bytes.len() {
        array[next] = bytes[next];
        next += 1;
    }
    array
}
