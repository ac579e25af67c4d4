//! Slurm's C: the functions that it calls, and those of it that are called.
//!
//! This is the only module with `unsafe` code. Everything that Slurm passes is a pointer to memory of its
//! own, which is valid during the call and which its locks keep from changing meanwhile. So pointers are
//! read during the call only, on the thread that has made it, and the adapter gets values.
//!
//! | file | what it has |
//! |---|---|
//! | `layout` | where the members of structures are, of the headers of this build |
//! | `symbols` | functions and variables of the daemon, looked up by their names |
//! | `memory` | texts and lists in the daemon's memory |
//! | `structures` | structures as the adapter reads and writes them |
//! | `daemon` | the daemon |
//! | `entry` | what Slurm calls |
#![allow(unsafe_code)]

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

/// The number of the Slurm that the file is built for: `plugin_version`.
pub const VERSION: u32 = layout::VERSION;

/// A text with the byte 0 behind it, as an array: `plugin_name` and `plugin_type` are arrays in C.
///
/// # Panics
/// At compile time, when `N` is not one more than the length of the text.
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
