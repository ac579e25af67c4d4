//! The parsers of foreign bytes that this crate keeps private, as functions for fuzzers. Each folder has those of its own
//! parsers. Most write what they have read, so that a fuzzer can ask whether that is read as the same.

pub use crate::allocations::foreign::outer_jobs;
pub use crate::archive::foreign::archive;
#[cfg(feature = "http")]
pub use crate::daemon::http::foreign::http;
pub use crate::daemon::server::foreign::requests;
pub use crate::exec::foreign::{shepherd_message, shepherd_request};
pub use crate::exec::nodes::foreign::{from_node, node_frames, to_node};
pub use crate::exec::shepherd::pmi::foreign::pmi;
