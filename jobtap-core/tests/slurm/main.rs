//! Slurm's interfaces for plugins: requests and prologs.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod prep;
mod requests;
