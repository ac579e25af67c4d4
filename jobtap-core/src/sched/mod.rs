//! Scheduling: which job is next, and which resources it gets. Pure data structures.

mod pool;
mod queue;

pub use pool::{Answer, Pool};
pub use queue::AllocQueue;
