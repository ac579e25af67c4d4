//! The threads on which plugins work beside the engine's: one for the futures of
//! each, and a bounded number for work that computes or blocks.

pub(in crate::daemon) mod blocking;
pub(in crate::daemon) mod futures;
