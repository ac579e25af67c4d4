//! What the handlers of plugins cost, and which of them is being called now.

pub(super) mod calls;
pub(super) mod meter;
