//! The context of a handler: its reads and calls, and the types that they take and return.

pub(super) mod annotations;
pub(super) mod arguments;
pub(super) mod call;
pub(super) mod context;
pub(super) mod jobs;
pub(super) mod jobspec_path;
pub(super) mod retained;
pub(super) mod token;
