//! The changes to the store that inputs lead to, in order.

use rustc_hash::FxHashMap;

use super::{JobLog, Write};
use crate::eventlog::EventEntry;
use crate::job::JobId;

/// The maximum number of changes for which room is reserved in advance.
const MOST_ROOM: usize = 8 * 1024;

/// Changes to the store, to be made durable in one commit.
///
/// All events that a job gets between two commits are joined into one [`Write::Append`] for each log, since a store
/// makes a record of each write.
#[derive(Debug, Default)]
pub struct Writes {
    list: Vec<Write>,
    /// The index in `list` of the [`Write::Append`] of each log.
    appends: FxHashMap<(JobId, JobLog), usize>,
}

impl Writes {
    /// The changes in their order.
    #[must_use]
    pub fn into_list(self) -> Vec<Write> {
        self.list
    }

    /// Takes all changes, and reserves room for as many, up to [`MOST_ROOM`].
    pub(crate) fn take(&mut self) -> Self {
        let room = self.list.len().min(MOST_ROOM);
        self.appends.clear();
        self.appends.shrink_to(MOST_ROOM);
        let list = std::mem::replace(&mut self.list, Vec::with_capacity(room));
        Self { list, appends: FxHashMap::default() }
    }

    /// Adds a change.
    pub(crate) fn push(&mut self, write: Write) {
        match &write {
            Write::Append { id, log, .. } => {
                self.appends.insert((*id, *log), self.list.len());
            }
            Write::Remove { id } => {
                for log in [JobLog::Main, JobLog::Exec] {
                    self.appends.remove(&(*id, log));
                }
            }
            _ => {}
        }
        self.list.push(write);
    }

    /// Appends an event to a log of a job, with `seq` lines before it.
    pub(crate) fn append(&mut self, id: JobId, log: JobLog, seq: u64, entry: &EventEntry) {
        let place = self.appends.get(&(id, log));
        match place.and_then(|place| self.list.get_mut(*place)) {
            Some(Write::Append { lines, .. }) => entry.encode_to(lines),
            _ => self.push(first_line(id, log, seq, entry)),
        }
    }
}

impl From<Vec<Write>> for Writes {
    fn from(list: Vec<Write>) -> Self {
        let mut writes = Self::default();
        writes.extend(list);
        writes
    }
}

impl Extend<Write> for Writes {
    fn extend<I: IntoIterator<Item = Write>>(&mut self, changes: I) {
        changes.into_iter().for_each(|write| self.push(write));
    }
}

impl IntoIterator for Writes {
    type Item = Write;
    type IntoIter = std::vec::IntoIter<Write>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

/// Appends an event to a log of a job that has not been stored yet; `writes` are the changes held back for this job.
pub(crate) fn append_held_back(
    writes: &mut Vec<Write>,
    id: JobId,
    log: JobLog,
    seq: u64,
    entry: &EventEntry,
) {
    let of_log =
        |write: &&mut Write| matches!(write, Write::Append { log: known, .. } if *known == log);
    match writes.iter_mut().find(of_log) {
        Some(Write::Append { lines, .. }) => entry.encode_to(lines),
        _ => writes.push(first_line(id, log, seq, entry)),
    }
}

fn first_line(id: JobId, log: JobLog, seq: u64, entry: &EventEntry) -> Write {
    // Most jobs have several events at once.
    let mut lines = Vec::with_capacity(512);
    entry.encode_to(&mut lines);
    Write::Append { id, log, seq, lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn append(writes: &mut Writes, id: u64, log: JobLog, seq: u64) {
        let entry = EventEntry::new(Timestamp::from_secs(1.0), format!("e{seq}"), None);
        writes.append(JobId::new(id), log, seq, &entry);
    }

    fn shown(writes: Writes) -> Vec<String> {
        let shown = |write| match write {
            Write::Append { id, log, seq, lines } => {
                let lines = String::from_utf8(lines).unwrap();
                let lines = lines.split_inclusive('\n');
                let events = lines.map(|line| EventEntry::decode(line).unwrap().name.into());
                let events: Vec<String> = events.collect();
                format!("{} {} {seq} {}", id.as_u64(), log.key(), events.join(","))
            }
            other => format!("{other:?}"),
        };
        writes.into_list().into_iter().map(shown).collect()
    }

    #[test]
    fn the_events_of_a_log_are_one_change() {
        let mut writes = Writes::default();
        for (id, log, seq) in [
            (1, JobLog::Main, 4),
            (2, JobLog::Main, 0),
            (1, JobLog::Exec, 0),
            (1, JobLog::Main, 5),
            (1, JobLog::Main, 6),
        ] {
            append(&mut writes, id, log, seq);
        }
        let one = "1 eventlog 4 e4,e5,e6";
        assert_eq!(shown(writes), [one, "2 eventlog 0 e0", "1 guest.exec.eventlog 0 e0"]);
    }

    #[test]
    fn nothing_is_joined_across_a_removal() {
        let mut writes = Writes::default();
        append(&mut writes, 1, JobLog::Main, 0);
        writes.push(Write::Remove { id: JobId::new(1) });
        append(&mut writes, 1, JobLog::Main, 1);
        let shown = shown(writes);
        assert_eq!((shown.len(), shown[0].as_str()), (3, "1 eventlog 0 e0"));
        assert_eq!(shown[2], "1 eventlog 1 e1");
    }

    #[test]
    fn what_was_held_back_is_joined_with_what_follows() {
        let entry = EventEntry::new(Timestamp::from_secs(1.0), "e0", None);
        let mut held_back = Vec::new();
        append_held_back(&mut held_back, JobId::new(1), JobLog::Main, 0, &entry);
        append_held_back(&mut held_back, JobId::new(1), JobLog::Main, 1, &entry);
        let mut writes = Writes::from(held_back);
        append(&mut writes, 1, JobLog::Main, 2);
        assert_eq!(shown(writes), ["1 eventlog 0 e0,e0,e2"]);
    }
}
