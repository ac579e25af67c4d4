//! Manager.

pub mod exec;
