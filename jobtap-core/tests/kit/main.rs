//! The test kit as the author of a test sees it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod hanging;
mod hosts;
