//! The context of a handler: what it reads of its host, what it can ask for, and the types that these
//! calls take and give.

pub(super) mod arguments;
pub(super) mod call;
pub(super) mod context;
pub(super) mod jobs;
pub(super) mod jobspec_path;
pub(super) mod retained;
pub(super) mod token;
