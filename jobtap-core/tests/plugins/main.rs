//! What plugins see and can rely on, and what their mistakes lead to.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod administration;
mod asyncs;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod gone;
mod guarantees;
mod last;
mod managers;
mod misuse;
mod reads;
mod replay;
mod services;
mod shadow;
mod timers;
mod topic_table;
mod topics;
