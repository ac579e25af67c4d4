//! The node events that clients can still read: at most `resource.journal-max` of them.
//!
//! The stored log has all events. As in Flux, a journal that has dropped events begins with an event that says so.

use std::collections::VecDeque;

use serde_json::Value;

use crate::eventlog::EventEntry;
use crate::job::Timestamp;

/// The bound if the configuration has none.
const MAX: usize = 100_000;

/// The last events.
#[derive(Debug)]
pub(crate) struct Journal {
    events: VecDeque<EventEntry>,
    max: usize,
    /// The time of the last event that was dropped.
    truncated: Option<Timestamp>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { events: VecDeque::new(), max: MAX, truncated: None }
    }
}

impl Journal {
    /// Reads the bound from the configuration, and applies it. The daemon has checked its type.
    pub(crate) fn configure(&mut self, config: &Value) {
        let max = config.pointer("/resource/journal-max");
        let number = |max: &Value| usize::try_from(max.as_i64()?.max(0)).ok();
        self.max = max.and_then(number).unwrap_or(MAX);
        self.truncate();
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: EventEntry) {
        self.events.push_back(event);
        self.truncate();
    }

    /// The events that have not been dropped. In place of those that have, there is one `truncate` event with the time
    /// of the last of them.
    pub(crate) fn events(&self) -> Vec<EventEntry> {
        let truncate = self.truncated.map(|timestamp| EventEntry {
            timestamp,
            name: "truncate".into(),
            context: None,
        });
        truncate.into_iter().chain(self.events.iter().cloned()).collect()
    }

    fn truncate(&mut self) {
        while self.events.len() + usize::from(self.truncated.is_some()) > self.max {
            let Some(dropped) = self.events.pop_front() else { return };
            self.truncated = Some(dropped.timestamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(journal: &Journal) -> Vec<(String, f64)> {
        let one = |event: EventEntry| (event.name.to_string(), event.timestamp.as_secs());
        journal.events().into_iter().map(one).collect()
    }

    fn push(journal: &mut Journal, times: std::ops::RangeInclusive<u32>) {
        for time in times {
            let timestamp = Timestamp::from_secs(f64::from(time));
            journal.push(EventEntry { timestamp, name: "drain".into(), context: None });
        }
    }

    fn bound(journal: &mut Journal, max: i64) {
        journal.configure(&json!({"resource": {"journal-max": max}}));
    }

    #[test]
    fn a_full_journal_begins_with_what_it_has_lost() {
        let mut journal = Journal::default();
        push(&mut journal, 1..=5);
        bound(&mut journal, 5);
        assert_eq!(told(&journal).len(), 5);
        assert_eq!(told(&journal)[0], ("drain".into(), 1.0));
        push(&mut journal, 6..=6);
        let drain = |time: f64| ("drain".to_owned(), time);
        let expected =
            [("truncate".to_owned(), 2.0), drain(3.0), drain(4.0), drain(5.0), drain(6.0)];
        assert_eq!(told(&journal), expected);
        for max in [1, 0, -1] {
            bound(&mut journal, max);
            assert_eq!(told(&journal), [("truncate".into(), 6.0)], "{max}");
        }
        journal.configure(&json!({}));
        push(&mut journal, 7..=8);
        assert_eq!(told(&journal), [("truncate".into(), 6.0), drain(7.0), drain(8.0)]);
    }
}
