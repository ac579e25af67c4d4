//! An instance of several nodes, which a launcher has started: jobs across them, and nodes that fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod campaign;
mod exec;
mod failures;
mod jobs;
mod launchers;
mod nested;
mod start;
