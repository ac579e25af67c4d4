//! What holds across the parts of the store: random histories, killed managers, lost power,
//! damaged files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod crash;
mod damage;
mod model;
mod power;
mod torn;
mod unsynced;
