//! What can go wrong between a plugin and its host.

pub(crate) mod call_error;
#[doc(hidden)]
pub mod errno;
pub(crate) mod failure;
pub(super) mod is_error;
pub(super) mod setup_error;
