//! Manager.

pub mod store;
