//! The events in the log of allocations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::allocation::AllocationId;
use crate::eventlog::EventEntry;
use crate::job::Timestamp;
use crate::resource::Idset;

/// What happens to an allocation: an event's name and its context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "context", rename_all = "kebab-case")]
pub(super) enum Change {
    /// It is asked for.
    Order {
        id: AllocationId,
        table: String,
        ranks: Idset,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<f64>,
    },
    /// The outer job manager has taken the request.
    Ordered { id: AllocationId, job: String },
    /// It doesn't take the request.
    Refused { id: AllocationId, reason: String },
    /// The allocation runs, or its end has moved.
    Started {
        id: AllocationId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends_at: Option<f64>,
    },
    /// A node has joined.
    Joined { id: AllocationId, rank: u32, host: String },
    /// No more jobs start there, and it ends when those that run there have ended.
    Drain { id: AllocationId, reason: String },
    /// It is given back.
    End { id: AllocationId, reason: String },
    /// It has ended.
    Ended { id: AllocationId, reason: String },
}

/// Why a line of the log isn't an event of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {name}: {error}")]
pub struct ChangeError {
    name: String,
    error: String,
}

impl Change {
    /// The allocation.
    pub(super) fn id(&self) -> AllocationId {
        match *self {
            Self::Order { id, .. }
            | Self::Ordered { id, .. }
            | Self::Refused { id, .. }
            | Self::Started { id, .. }
            | Self::Joined { id, .. }
            | Self::Drain { id, .. }
            | Self::End { id, .. }
            | Self::Ended { id, .. } => id,
        }
    }

    /// Whether nothing can happen to the allocation after this.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Ended { .. })
    }

    /// The event as an entry of the log.
    pub(super) fn entry(&self, at: Timestamp) -> EventEntry {
        // A change is always written as an object with a name and a context.
        let mut written = serde_json::to_value(self).unwrap_or_default();
        let name = written.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let context = match written.get_mut("context").map(Value::take) {
            Some(Value::Object(context)) => Some(context),
            _ => None,
        };
        EventEntry::new(at, name, context)
    }

    /// Reads an entry of the log.
    pub(super) fn read(entry: &EventEntry) -> Result<Self, ChangeError> {
        let name = entry.name.to_string();
        let read = serde_json::to_value(entry).and_then(Self::deserialize);
        read.map_err(|error| ChangeError { name, error: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn each_event_is_read_as_it_was_written() {
        let id = AllocationId(NonZeroU64::MIN);
        let at = Timestamp::from_secs(17.5);
        let reason = || "cancelled".to_owned();
        let order = |time_limit| Change::Order {
            id,
            table: "small".to_owned(),
            ranks: Idset::from(1..=2),
            time_limit,
        };
        for change in [
            order(None),
            order(Some(60.0)),
            Change::Ordered { id, job: "77".to_owned() },
            Change::Refused { id, reason: reason() },
            Change::Started { id, ends_at: None },
            Change::Started { id, ends_at: Some(100.5) },
            Change::Joined { id, rank: 1, host: "n7".to_owned() },
            Change::Drain { id, reason: reason() },
            Change::End { id, reason: reason() },
            Change::Ended { id, reason: reason() },
        ] {
            let line = change.entry(at).encode();
            assert_eq!(Change::read(&EventEntry::decode(&line).unwrap()), Ok(change), "{line}");
        }
        let line = order(None).entry(at).encode();
        assert_eq!(
            line.trim_end(),
            r#"{"timestamp":17.5,"name":"order","context":{"id":1,"table":"small","ranks":"1-2"}}"#
        );
        let other = EventEntry::new(at, "grow", None);
        assert!(Change::read(&other).unwrap_err().to_string().starts_with("event grow: "));
    }
}
