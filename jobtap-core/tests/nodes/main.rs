//! Nodes, and resources that plugins retain.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/keeper.rs"]
mod keeper;
mod passed_over;
mod retained;
mod states;
