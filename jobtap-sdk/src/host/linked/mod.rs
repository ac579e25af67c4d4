//! The plugins and schedulers that are linked into a binary: how each describes itself, how they are found, and
//! their order.

pub(super) mod backend;
pub(crate) mod descriptor;
pub(super) mod order;
pub(super) mod registry;
