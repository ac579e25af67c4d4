//! The threads that plugins use besides the engine's: one for the futures of each plugin, and a bounded number for work
//! that computes or blocks; and the way of their requests to services.

pub(in crate::daemon) mod blocking;
pub(in crate::daemon) mod futures;
pub(in crate::daemon) mod requests;
