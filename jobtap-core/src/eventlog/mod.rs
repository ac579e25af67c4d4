//! The eventlog (RFC 18): the append-only list of events that is the source of truth about a job.

mod context;
mod entry;
pub mod format;

pub use context::Context;
pub(crate) use entry::KNOWN_EVENTS;
pub use entry::{EntryError, EventEntry, LogError, Raised, decode_log};
