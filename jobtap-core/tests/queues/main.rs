//! Queues: who may use them, their state, and which job starts when.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod named;
mod scheduling;
mod state;
