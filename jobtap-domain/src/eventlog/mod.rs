//! The eventlog (RFC 18): the append-only list of events that is the source of truth about a job.

mod context;
mod entry;
mod event;
pub mod format;
mod name;

pub use context::Context;
pub use entry::{EntryError, EventEntry, LogError, decode_log};
pub use event::{Allocated, ContextError, Event, Raised, Submitted};
pub use name::{Name, OtherName};
