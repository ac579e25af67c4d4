//! All jobs that the manager knows.
//!
//! An active job is a [`Record`]. An inactive one is kept as its [summary](mod@summary), the line of JSON that is also
//! in the store, since there may be millions of them. The summary is read into a record when something looks at the
//! job; at the end of the turn only the summary stays.
//!
//! | file | what it holds |
//! |---|---|
//! | `record`, `records` | one job; the jobs by id |
//! | `posting`, `transitions` | how events are posted to it, and what each does (RFC 21) |
//! | `execution`, `allocation`, `perilogs`, `async_work`, `pending_events` | record parts with their own rules |
//! | `summary`, `attributes` | an inactive job as JSON; a job as listings show it |
//! | `attributions` | what plugins have said about active jobs |
//! | `counts`, `inactive`, `waiters` | jobs by state and by age; requests that wait for jobs |

mod allocation;
mod async_work;
pub(super) mod attributes;
mod attributions;
mod counts;
mod execution;
mod inactive;
mod pending_events;
mod perilogs;
mod posting;
mod record;
mod records;
pub(super) mod summary;
mod transitions;
pub(super) mod waiters;

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

pub(super) use async_work::Running;
pub(super) use attributions::AllAttributions;
pub(super) use execution::{Phase, PrepStage, Reattach, Simulated};
pub(super) use inactive::PurgeLimits;
pub(super) use perilogs::PerilogEvents;
pub(super) use record::{Admission, HeldBack, Record};
pub(super) use transitions::{Applied, ApplyError};

use super::api::{Effects, JobLog, Logged, RequestError, Write, append_held_back};
use crate::job::{IdGenerator, IdsExhausted, Job, JobId, JobResult, State, Uid, merge_annotations};
use crate::kept::Annotations;
use counts::AllCounts;
use inactive::Inactive;
use pending_events::SpareQueues;
use records::Records;

/// The number of jobs that may change in one turn before they are tidied.
const TIDY_AFTER: usize = 4096;

/// All jobs, by id.
#[derive(Debug)]
pub(super) struct Jobs {
    records: Records,
    summarized: FxHashMap<JobId, Summarized>,
    pub(super) inactive: Inactive,
    pub(super) counts: AllCounts,
    ids: IdGenerator,
    /// The greatest id that was ever given, even before the last restart.
    pub(super) newest_id: Option<JobId>,
    /// Jobs that something has happened to since the last [`tidy`](Self::tidy).
    untidy: Vec<JobId>,
    /// Inactive jobs whose summaries were read since the last [`tidy`](Self::tidy).
    read: RefCell<Vec<JobId>>,
    /// Those of the jobs in `read` that may have been changed.
    changed: Vec<JobId>,
    /// What plugins have said about active jobs.
    pub(super) attributions: AllAttributions,
    /// Queues for the events that will be posted next.
    spare_queues: SpareQueues,
}

/// An inactive job.
#[derive(Debug)]
pub(super) struct Summarized {
    pub(super) brief: Brief,
    summary: Box<str>,
    /// The volatile data of plugins, which is not in the summary.
    volatile_data: Option<Box<Map<String, Value>>>,
    /// The job, while something looks at it.
    record: OnceCell<Box<Record>>,
}

/// What is known about an inactive job without reading its summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brief {
    pub(super) userid: Uid,
    pub(super) result: Option<JobResult>,
}

impl Summarized {
    fn new(record: &Record, summary: Box<str>) -> Self {
        let brief = Brief { userid: record.job.userid(), result: record.result() };
        let volatile_data = record.volatile_data.clone();
        Self { brief, summary, volatile_data, record: OnceCell::new() }
    }

    /// Reads the job without leaving it in memory.
    pub(super) fn read(&self, id: JobId) -> Option<Box<Record>> {
        let mut record = summary::read(id, &self.summary).ok()?;
        record.volatile_data.clone_from(&self.volatile_data);
        Some(Box::new(record))
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            records: Records::default(),
            summarized: FxHashMap::default(),
            inactive: Inactive::default(),
            counts: AllCounts::default(),
            ids: IdGenerator::new(None),
            newest_id: None,
            untidy: Vec::new(),
            read: RefCell::default(),
            changed: Vec::new(),
            attributions: AllAttributions::default(),
            spare_queues: SpareQueues::default(),
        }
    }
}

impl Jobs {
    /// A job by its id.
    pub(super) fn get(&self, id: JobId) -> Option<&Record> {
        if let Some(record) = self.records.get(id) {
            return Some(record);
        }
        let summarized = self.summarized.get(&id)?;
        if let Some(record) = summarized.record.get() {
            return Some(record);
        }
        let record = summarized.read(id)?;
        // A read through `&self` leaves the record in memory until the end of the turn: plugins look at many
        // inactive jobs through shared references.
        self.read.borrow_mut().push(id);
        Some(summarized.record.get_or_init(|| record))
    }

    /// A job by its id, to change it.
    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Record> {
        // Most jobs that are changed are active. Looked up twice, since the borrow of a record that is returned would
        // last until the end of the function; the second time its place is known.
        if self.records.get(id).is_some() {
            return self.records.get_mut(id);
        }
        // Reads the job's summary.
        self.get(id)?;
        self.changed.push(id);
        self.summarized.get_mut(&id)?.record.get_mut().map(|record| &mut **record)
    }

    /// A job as plugins see it.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.get(id).map(|record| &record.job)
    }

    /// A job that clients can know about, or an error with this errno and text.
    pub(super) fn accepted(
        &self,
        id: JobId,
        errno: i32,
        text: &str,
    ) -> Result<&Record, RequestError> {
        let record = self.get(id).filter(|record| record.is_accepted());
        record.ok_or_else(|| RequestError::new(errno, text))
    }

    /// The state of a job.
    pub(super) fn state(&self, id: JobId) -> Option<State> {
        self.get(id).map(|record| record.job.state())
    }

    /// Whether a job was accepted. Before that, clients cannot know about it.
    pub(super) fn is_accepted(&self, id: JobId) -> bool {
        self.get(id).is_some_and(Record::is_accepted)
    }

    /// The active jobs for which `matches` is true, in the order of their ids.
    pub(super) fn active_where(&self, matches: impl Fn(&Record) -> bool) -> Vec<JobId> {
        let matches = |record: &&Record| record.job.state() != State::Inactive && matches(record);
        let mut ids: Vec<JobId> =
            self.records().filter(matches).map(|record| record.job.id()).collect();
        ids.sort_unstable();
        ids
    }

    /// All active jobs, in the order of their ids.
    pub(super) fn active(&self) -> Vec<JobId> {
        self.active_where(|_| true)
    }

    /// The jobs that are kept as records, in no order: the active ones, and those that have become
    /// inactive in this turn.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// An inactive job that is kept as its summary.
    pub(super) fn summarized(&self, id: JobId) -> Option<&Summarized> {
        self.summarized.get(&id)
    }

    /// The ids of the jobs that are kept as summaries, in order.
    pub(super) fn summarized_ids(&self) -> Vec<JobId> {
        let mut ids: Vec<JobId> = self.summarized.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The number of jobs.
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.summarized.len()
    }

    /// A new job id. `elapsed` is the time since the manager was started, in milliseconds.
    pub(super) fn next_id(&mut self, elapsed: u64) -> Result<JobId, IdsExhausted> {
        let id = self.ids.next(elapsed)?;
        self.newest_id = Some(id);
        Ok(id)
    }

    /// Notes an id that was given before the last restart.
    pub(super) fn note_id(&mut self, id: JobId) {
        self.newest_id = self.newest_id.max(Some(id));
    }

    /// Makes new ids greater than all that are known, once all jobs are restored.
    pub(super) fn continue_ids(&mut self) {
        self.ids = IdGenerator::new(self.newest_id);
    }

    /// Adds an active job.
    pub(super) fn insert_active(&mut self, record: Box<Record>) {
        self.records.insert(record);
    }

    /// Adds a restored job that is inactive, with its summary, and counts it. Its record stays readable until
    /// the job is [tidied](Self::tidy) if it `is_shown` to plugins.
    pub(super) fn insert_inactive(
        &mut self,
        mut record: Box<Record>,
        summary: Box<str>,
        is_shown: bool,
    ) {
        let id = record.job.id();
        if let Some(end) = record.job.kept().times.inactive() {
            self.inactive.add(id, end);
        }
        self.counts.add(&mut record);
        let summarized = Summarized::new(&record, summary);
        if is_shown {
            let _ = summarized.record.set(record);
            self.read.get_mut().push(id);
        }
        self.summarized.insert(id, summarized);
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: JobId) {
        self.records.remove(id);
        self.attributions.remove(id);
        self.summarized.remove(&id);
    }

    /// Counts a job that has been accepted, or restored.
    pub(super) fn count_new(&mut self, id: JobId) {
        if let Some(record) = self.records.get_mut(id) {
            self.counts.add(record);
        }
    }

    /// Follows an event in the counts: a state that the job has left, and a change of its jobspec.
    pub(super) fn count_event(&mut self, id: JobId, left: Option<State>, jobspec_changed: bool) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        if let Some(left) = left {
            self.counts.change_state(record, left);
        }
        if jobspec_changed {
            self.counts.change_queue(record);
        }
    }

    /// Removes an inactive job that is purged from the counts and from the order by age.
    pub(super) fn count_purged(&mut self, id: JobId) {
        let Some(record) = self.get(id) else {
            return;
        };
        let end = record.job.kept().times.inactive();
        // Looked up a second time by fields: `self.get` would borrow `self.counts` too. The `get` above has
        // read the summary.
        let Self { records, summarized, counts, inactive, .. } = self;
        let read = || summarized.get(&id)?.record.get().map(|record| &**record);
        let record = records.get(id).or_else(read);
        if let Some(record) = record {
            counts.purge(record);
        }
        if let Some(end) = end {
            inactive.remove(id, end);
        }
    }

    /// Notes that no event of a job waits, and reuses its queue.
    pub(super) fn go_idle(&mut self, id: JobId) {
        if let Some(record) = self.records.get_mut(id) {
            record.pending_events.busy = false;
            if let Some(queue) = record.pending_events.take_empty() {
                self.spare_queues.keep(queue);
            }
        }
    }

    /// Merges annotations into those of a job; returns the result.
    pub(super) fn annotate(
        &mut self,
        id: JobId,
        notes: Map<String, Value>,
    ) -> Option<&mut Annotations> {
        let annotations = &mut self.get_mut(id)?.job.kept_mut().annotations;
        merge_annotations(annotations, notes);
        Some(annotations)
    }

    /// Appends an event to a log of the job. The store and watchers get it once the job is accepted.
    pub(super) fn append(
        &mut self,
        effects: &mut Effects,
        id: JobId,
        log: JobLog,
        entry: impl Logged,
    ) {
        let Some(record) = self.get_mut(id) else {
            return;
        };
        let lines = match log {
            JobLog::Main => &mut record.lines.main,
            JobLog::Exec => &mut record.lines.exec,
        };
        let seq = *lines;
        *lines += 1;
        match &mut record.admission {
            Admission::Accepted => {
                effects.writes.append(id, log, seq, entry.entry());
                effects.publish(id, log, seq, entry);
            }
            Admission::Pending(held_back) => {
                append_held_back(&mut held_back.writes, id, log, seq, entry.entry());
                held_back.events.push((log, seq, entry.share()));
            }
            Admission::Rejected => {}
        }
    }

    /// Stores a value under a key of the job, once the job is accepted.
    pub(super) fn put(
        &mut self,
        effects: &mut Effects,
        id: JobId,
        key: impl Into<Cow<'static, str>>,
        value: String,
    ) {
        self.write(effects, id, Write::Put { id, key: key.into(), value });
    }

    /// Stores that a job has under this key what the instance has under another one.
    pub(super) fn share(
        &mut self,
        effects: &mut Effects,
        id: JobId,
        key: &'static str,
        with: String,
    ) {
        self.write(effects, id, Write::Share { id, key, with });
    }

    /// Writes about a job, once it is accepted.
    fn write(&mut self, effects: &mut Effects, id: JobId, write: Write) {
        match self.get_mut(id).map(|record| &mut record.admission) {
            Some(Admission::Accepted) => effects.writes.push(write),
            Some(Admission::Pending(held_back)) => held_back.writes.push(write),
            Some(Admission::Rejected) | None => {}
        }
    }

    /// Notes that something has happened to a job, so that [`tidy`](Self::tidy) looks at it.
    ///
    /// One input may change every job; tidying after every [`TIDY_AFTER`] of them bounds the memory.
    pub(super) fn tidy_later(&mut self, effects: &mut Effects, id: JobId) {
        self.untidy.push(id);
        if self.untidy.len() > TIDY_AFTER {
            self.tidy(effects);
        }
    }

    /// Frees memory of the jobs to which something has happened: turns inactive ones into summaries, and stores
    /// summaries that are new or changed.
    pub(super) fn tidy(&mut self, effects: &mut Effects) {
        let mut untidy = std::mem::take(&mut self.untidy);
        for id in untidy.drain(..) {
            match self.summarize(id) {
                Some(summary) => effects.writes.push(Write::Inactive { id, summary }),
                None => {
                    if let Some(record) = self.records.get_mut(id) {
                        record.shrink();
                    }
                }
            }
        }
        // The list's allocation is used again in the next turn.
        self.untidy = untidy;
        for (id, summary) in self.close_summaries() {
            effects.writes.push(Write::Inactive { id, summary });
        }
    }

    /// Turns a job into its summary if it is inactive and nothing is at work on it; returns the
    /// summary, to be stored.
    pub(super) fn summarize(&mut self, id: JobId) -> Option<String> {
        let record = self.records.get(id)?;
        if record.job.state() != State::Inactive || !record.is_idle() {
            return None;
        }
        let record = self.records.remove(id)?;
        self.attributions.remove(id);
        let summary = summary::write(&record);
        self.summarized.insert(id, Summarized::new(&record, summary.as_str().into()));
        Some(summary)
    }

    /// Drops the records of summaries that were read; returns the summaries that have changed.
    fn close_summaries(&mut self) -> Vec<(JobId, String)> {
        let mut changed = Vec::new();
        // First, since all of these are also among the jobs that were read, whose records are dropped below.
        for id in std::mem::take(&mut self.changed) {
            let Some(summarized) = self.summarized.get_mut(&id) else { continue };
            let Some(record) = summarized.record.get() else { continue };
            let summary = summary::write(record);
            summarized.volatile_data.clone_from(&record.volatile_data);
            // Most jobs that were borrowed mutably have not changed.
            if *summary != *summarized.summary {
                summarized.summary = summary.as_str().into();
                changed.push((id, summary));
            }
        }
        for id in self.read.get_mut().drain(..) {
            if let Some(summarized) = self.summarized.get_mut(&id) {
                summarized.record.take();
            }
        }
        changed
    }
}
