//! The manager's disk: one file to which the store appends a record for each commit, and what a disk may do to it.
//!
//! What was written and not synced is there after a crash of the process. After a loss of power, any of its sectors may
//! be there or not. A record whose checksum is wrong ends the file.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_daemon::store::on_rows::{AllRows, Medium, RowChange, RowStore};
use jobtap_daemon::store::{Op, Space, StoreError};

use crate::dice::Dice;

/// The size of what is written to a disk at once, or not at all.
const SECTOR: usize = 512;

/// The bytes before a record: its length and its checksum.
const HEAD: usize = 8;

/// What happens during the next commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The process dies before anything is written.
    CrashBefore,
    /// The process dies while it writes.
    CrashWithin,
    /// The process dies before the sync.
    CrashUnsynced,
    /// The process dies after the sync, before anybody knows.
    CrashAfter,
    /// The disk is full.
    Full,
    /// The write fails in the middle.
    WriteFails,
    /// The sync fails: what was written may be there or not.
    SyncFails,
}

/// The disk. Clones are the same one.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    file: Vec<u8>,
    synced: usize,
    fault: Fault,
    /// How much of the record is written before a fault in the middle, in thousandths.
    part: usize,
    /// Whether the process has died in a commit.
    crashed: bool,
    full: bool,
    commits: u64,
    /// The jobs whose data have changed since the last [`take_touched`](Disk::take_touched).
    touched: Vec<u64>,
}

/// The store on this disk.
pub type DiskStore = RowStore<Disk>;

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets this happen during the next commit.
    pub fn plan(&self, fault: Fault, part: u64) {
        let mut state = self.state();
        state.fault = fault;
        state.part = usize::try_from(part % 1000).unwrap_or(0);
    }

    /// Fills the disk, or makes room again.
    pub fn fill(&self, full: bool) {
        self.state().full = full;
    }

    /// Whether the process has died in a commit.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// How many commits have succeeded.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// The jobs whose data a commit has changed since the last call.
    pub fn take_touched(&self) -> Vec<u64> {
        let mut touched = std::mem::take(&mut self.state().touched);
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Takes the power from the disk: of what isn't synced, some sectors are there.
    pub fn lose_power(&self, dice: &mut Dice) {
        let mut state = self.state();
        let mut at = state.synced;
        while at < state.file.len() {
            let end = (at / SECTOR + 1) * SECTOR;
            let end = end.min(state.file.len());
            if dice.hits(1, 2)
                && let Some(sector) = state.file.get_mut(at..end)
            {
                sector.fill(0);
            }
            at = end;
        }
        if dice.hits(1, 3) {
            // Its length was not durable either.
            let lost = usize::try_from(dice.below((state.file.len() - state.synced) as u64 + 1));
            let length = state.file.len() - lost.unwrap_or(0);
            state.file.truncate(length);
        }
    }

    /// Opens the store, which drops what a crash has left unfinished.
    ///
    /// # Errors
    /// Acknowledged commits are missing, which the simulated disk must never do by itself.
    pub fn open(&self) -> Result<Arc<DiskStore>, StoreError> {
        let mut state = self.state();
        let (rows, commits, length) = read(&state.file);
        if commits < state.commits {
            let (acked, found) = (state.commits, commits);
            return Err(StoreError::Lost { path: "disk".into(), acked, found });
        }
        state.file.truncate(length);
        state.synced = length;
        state.commits = commits;
        (state.crashed, state.fault, state.full) = (false, Fault::None, false);
        state.touched.clear();
        drop(state);
        Ok(Arc::new(RowStore::open(self.clone(), rows, commits)))
    }
}

/// Reads all whole records. Returns the rows, the number of commits and the length of these records.
fn read(file: &[u8]) -> (AllRows, u64, usize) {
    let mut rows = BTreeMap::new();
    let (mut commits, mut at) = (0, 0);
    while let Some((record, end)) = record_at(file, at) {
        let mut rest = record;
        while let Some((name, value)) = take_change(&mut rest) {
            match value {
                Some(value) => drop(rows.insert(name, value)),
                None => drop(rows.remove(&name)),
            }
        }
        commits += 1;
        at = end;
    }
    (rows, commits, at)
}

fn record_at(file: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = number(file.get(at..at + 4)?)?;
    let sum = number(file.get(at + 4..at + HEAD)?)?;
    let end = at + HEAD + usize::try_from(length).ok()?;
    let record = file.get(at + HEAD..end)?;
    // An empty commit is never written, so zeros are no record.
    (length > 0 && crc32fast::hash(record) == sum).then_some((record, end))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    record.extend(length.to_le_bytes());
    record.extend(bytes);
}

fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, after) = rest.split_at_checked(4)?;
    let (bytes, after) = after.split_at_checked(usize::try_from(number(length)?).ok()?)?;
    *rest = after;
    Some(bytes.to_vec())
}

fn take_change(rest: &mut &[u8]) -> Option<RowChange> {
    let name = take_bytes(rest)?;
    let (kind, after) = rest.split_first()?;
    *rest = after;
    let value = if *kind == 1 { Some(take_bytes(rest)?) } else { None };
    Some((name, value))
}

fn record(changes: &[RowChange]) -> Vec<u8> {
    let mut record = vec![0; HEAD];
    for (name, value) in changes {
        put(&mut record, name);
        match value {
            Some(value) => {
                record.push(1);
                put(&mut record, value);
            }
            None => record.push(0),
        }
    }
    let (head, body) = record.split_at_mut(HEAD);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let (first, second) = head.split_at_mut(4);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    record
}

impl Medium for Disk {
    fn write(&self, _: u64, ops: &[Op], changes: &[RowChange]) -> Result<(), StoreError> {
        let mut state = self.state();
        let fault = std::mem::take(&mut state.fault);
        let failed = |text: &str| StoreError::Failed { path: "disk".into(), detail: text.into() };
        if state.crashed {
            return Err(failed("the process is dead"));
        }
        let record = record(changes);
        let part = record.len() * state.part / 1000;
        match fault {
            Fault::CrashBefore => {
                state.crashed = true;
                return Err(failed("killed"));
            }
            Fault::CrashWithin | Fault::WriteFails => {
                state.file.extend(record.iter().take(part));
                state.crashed = fault == Fault::CrashWithin;
                return Err(failed("it ends in the middle of a write"));
            }
            Fault::Full => return Err(no_space()),
            _ if state.full => {
                state.file.extend(record.iter().take(part));
                return Err(no_space());
            }
            _ => state.file.extend(record),
        }
        match fault {
            Fault::CrashUnsynced => {
                state.crashed = true;
                return Err(failed("killed before the sync"));
            }
            Fault::SyncFails => return Err(failed("it could not be synced")),
            _ => state.synced = state.file.len(),
        }
        if fault == Fault::CrashAfter {
            state.crashed = true;
            return Err(failed("killed after the sync"));
        }
        state.commits += 1;
        let touched = ops.iter().filter_map(|op| match op {
            Op::Put { key, .. } | Op::Append { key, .. } | Op::Remove { key } => key.job_id(),
            Op::RemoveJob(id) => Some(*id),
        });
        state.touched.extend(touched);
        Ok(())
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        let free = if self.state().full { 0 } else { 1 << 40 };
        Ok(Some(Space { path: "disk".into(), free }))
    }
}

fn no_space() -> StoreError {
    StoreError::Io { path: "disk".into(), source: Error::from(ErrorKind::StorageFull) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use jobtap_daemon::store::{Key, Store};

    use super::*;

    fn append(store: &DiskStore, seq: u64) -> bool {
        let value = format!("line {seq}\n").into_bytes();
        store.commit(vec![Op::Append { key: Key::eventlog(7), seq, value }]).is_ok()
    }

    fn lines(disk: &Disk) -> usize {
        let log = disk.open().unwrap().read_log(&Key::eventlog(7)).unwrap().unwrap_or_default();
        String::from_utf8(log).unwrap().lines().count()
    }

    #[test]
    fn what_was_acknowledged_survives_each_crash_and_nothing_is_torn() {
        for fault in [
            Fault::CrashBefore,
            Fault::CrashWithin,
            Fault::CrashUnsynced,
            Fault::CrashAfter,
            Fault::Full,
            Fault::WriteFails,
            Fault::SyncFails,
        ] {
            for seed in 0..50 {
                let (disk, mut dice) = (Disk::default(), Dice::new(seed));
                let store = disk.open().unwrap();
                assert!(append(&store, 0) && append(&store, 1));
                disk.plan(fault, dice.roll());
                assert!(!append(&store, 2));
                disk.lose_power(&mut dice);
                let found = lines(&disk);
                assert!(found == 2 || found == 3, "{fault:?}, {seed}: {found}");
                assert!(fault != Fault::CrashAfter || found == 3, "it was synced");
            }
        }
    }
}
