//! A job as its users see it: its life by RFC 21, the requests about it, and what is shown of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

mod arrays;
mod bulk;
#[path = "../common/mod.rs"]
mod common;
mod execution;
mod ingest;
mod life_cycle;
mod listing;
mod parts;
mod prefill;
mod priorities;
mod requests;
mod updates;
mod why;
