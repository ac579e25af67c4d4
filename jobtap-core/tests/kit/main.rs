//! The test kit as the author of a test meets it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod hosts;
