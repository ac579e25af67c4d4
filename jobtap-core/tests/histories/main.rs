//! Random histories of a manager whose plugins misbehave, of its nodes and of its queues, each against a model.
//!
//! `PROPTEST_CASES` sets their number.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

mod arrays;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod jobs;
#[path = "../common/keeper.rs"]
mod keeper;
mod model;
mod newer;
mod nodes;
mod prefill;
mod queues;
mod run;
mod waits;
