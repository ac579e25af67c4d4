//! Queues: who may use them, in which state they are, and who starts when.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod named;
mod scheduling;
mod state;
