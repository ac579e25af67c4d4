//! Entries of logs other than a job's main eventlog: the log of nodes, and the logs of execution.

use serde_json::Value;

use crate::eventlog::EventEntry;
use crate::job::Timestamp;

/// An event with these keys, in this order.
pub(super) fn with<const N: usize>(
    now: Timestamp,
    name: &'static str,
    context: [(&'static str, Value); N],
) -> EventEntry {
    EventEntry { timestamp: now, name: name.into(), context: Some(context.into()) }
}

/// A value in the context of an event.
pub(super) fn field<'e>(entry: &'e EventEntry, key: &str) -> Option<&'e Value> {
    entry.context.as_ref()?.get(key)
}
