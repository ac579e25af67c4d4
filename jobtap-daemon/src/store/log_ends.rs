//! A cache of where the logs of recent jobs end. An append that continues a known log needs no lookup of its record,
//! which would take longer the more tables there are.

use rustc_hash::FxHashMap;

use super::Key;

/// The ends of the eventlogs of recent jobs. Logs that existed when the store was opened enter the cache when they are
/// looked up.
#[derive(Default)]
pub(super) struct LogEnds {
    /// The number of the next record of each log in [`CACHED`], or [`UNKNOWN`]. 32 bits keep the cache small: it has
    /// an entry for each pending job.
    jobs: FxHashMap<u64, [u32; CACHED.len()]>,
    /// The highest id among the jobs that were ever stored.
    newest: Option<u64>,
    /// The highest job id whose logs may be missing from the cache; `None` if the cache has the logs of
    /// all jobs.
    evicted: Option<u64>,
}

/// The logs in the cache.
const CACHED: [&str; 2] = [Key::EVENTLOG, Key::EXEC_EVENTLOG];

/// Stands for an unknown number, so that the store is asked whether a record exists. It is higher than any number that
/// a log reaches.
const UNKNOWN: u32 = u32::MAX;

/// The maximum number of jobs in the cache. Most of them are pending.
pub(super) const CACHED_JOBS: usize = 1 << 17;

impl LogEnds {
    /// The cache for a store in which no job has a higher id than `newest`.
    pub(super) fn after(newest: Option<u64>) -> Self {
        Self { jobs: FxHashMap::default(), newest, evicted: newest }
    }

    /// The highest id among the jobs that were ever stored.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Records that the store has data of a job.
    pub(super) fn note_job(&mut self, id: u64) {
        self.newest = self.newest.max(Some(id));
    }

    /// Whether a record is known to follow all records of its log.
    pub(super) fn is_new(&self, key: &Key, seq: u64) -> bool {
        let Some((id, log)) = cached(key) else { return false };
        match self.jobs.get(&id).and_then(|logs| logs.get(log)) {
            Some(next) => *next != UNKNOWN && u64::from(*next) <= seq,
            None => self.covers(id),
        }
    }

    /// Whether the logs of a job would be in the cache if they existed.
    fn covers(&self, id: u64) -> bool {
        self.evicted.is_none_or(|evicted| evicted < id)
    }

    /// Records that a record was added to a log.
    pub(super) fn note(&mut self, key: &Key, seq: u64) {
        let Some((id, log)) = cached(key) else { return };
        let next = u32::try_from(seq).map_or(UNKNOWN, |seq| seq.saturating_add(1));
        if let Some(end) = self.of_job(id).get_mut(log) {
            // An unknown end stays unknown, since `UNKNOWN` is the highest number.
            *end = (*end).max(next);
        }
        self.note_job(id);
    }

    /// Records the end of a log that was looked up.
    pub(super) fn learn(&mut self, key: &Key, next: u64) {
        let Some((id, log)) = cached(key) else { return };
        let next = u32::try_from(next).unwrap_or(UNKNOWN);
        if let Some(end) = self.of_job(id).get_mut(log) {
            // The lookup doesn't see the records that this commit has already added.
            *end = if *end == UNKNOWN { next } else { (*end).max(next) };
        }
    }

    /// The ends of a job's logs. Empties the cache first if it is full.
    fn of_job(&mut self, id: u64) -> &mut [u32; CACHED.len()] {
        if self.jobs.len() >= CACHED_JOBS && !self.jobs.contains_key(&id) {
            self.forget();
        }
        let unseen = if self.covers(id) { 0 } else { UNKNOWN };
        self.jobs.entry(id).or_insert([unseen; CACHED.len()])
    }

    /// Forgets all ends, so that they are looked up.
    pub(super) fn forget(&mut self) {
        self.jobs.clear();
        self.evicted = self.newest;
    }

    /// Records that all logs of a job were removed.
    pub(super) fn removed(&mut self, id: u64) {
        self.jobs.remove(&id);
    }
}

/// The job of a log, and the index of the log in [`CACHED`]; `None` for a log that is never cached.
fn cached(key: &Key) -> Option<(u64, usize)> {
    let log = CACHED.iter().position(|name| *name == key.name())?;
    Some((key.job_id()?, log))
}
