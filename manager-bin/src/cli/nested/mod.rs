//! `batch`, `alloc` and `proxy`: managers that run as jobs of another manager, with the job's resources and until the
//! job's end, and commands that run under them.

mod alloc;
mod args;
mod batch;
mod directives;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod outward;
mod proxy;

pub(super) use self::alloc::{AllocCommand, run as alloc};
pub(super) use self::batch::{BatchCommand, run as batch};
pub(super) use self::outward::{OutwardArgs, run as outward};
pub(super) use self::proxy::{ProxyArgs, run as proxy};
