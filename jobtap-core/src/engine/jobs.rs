//! The jobs that the engine knows. Those that are active are records; one that is over is folded to
//! its [summary](super::summary), as it is stored, since there may be millions of them. It is
//! unfolded when somebody looks at it, and folded again at the end of the turn.

use std::cell::{OnceCell, RefCell};

use rustc_hash::FxHashMap;

use super::record::Record;
use super::summary;
use crate::job::{JobId, JobResult, State, Uid};

/// All jobs, by id.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    active: FxHashMap<JobId, Box<Record>>,
    over: FxHashMap<JobId, Over>,
    /// Those that are over and were looked at since they were last folded.
    looked_at: RefCell<Vec<JobId>>,
    /// Those of them that may have been changed.
    changed: Vec<JobId>,
}

/// A job that is over.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) brief: Brief,
    summary: Box<str>,
    record: OnceCell<Box<Record>>,
}

/// What is known of a job that is over without unfolding it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brief {
    pub(super) userid: Uid,
    pub(super) result: Option<JobResult>,
}

impl Over {
    fn new(record: Box<Record>, summary: String) -> Self {
        let brief = Brief { userid: record.job.userid, result: record.result() };
        Self { brief, summary: summary.into(), record: OnceCell::new() }
    }

    /// The job, for a look that leaves nothing behind.
    pub(super) fn unfolded(&self, id: JobId) -> Option<Box<Record>> {
        summary::read(id, &self.summary).ok().map(Box::new)
    }
}

impl Jobs {
    /// A job by its id.
    pub(super) fn get(&self, id: &JobId) -> Option<&Record> {
        if let Some(record) = self.active.get(id) {
            return Some(record);
        }
        let over = self.over.get(id)?;
        if let Some(record) = over.record.get() {
            return Some(record);
        }
        let record = over.unfolded(*id)?;
        self.looked_at.borrow_mut().push(*id);
        Some(over.record.get_or_init(|| record))
    }

    /// A job by its id, to change it.
    pub(super) fn get_mut(&mut self, id: &JobId) -> Option<&mut Record> {
        if self.over.contains_key(id) {
            // Unfolds it.
            self.get(id)?;
            self.changed.push(*id);
            return self.over.get_mut(id)?.record.get_mut().map(|record| &mut **record);
        }
        self.active.get_mut(id).map(|record| &mut **record)
    }

    /// An active job waits for something.
    pub(super) fn rest(&mut self, id: JobId) {
        if let Some(record) = self.active.get_mut(&id) {
            record.rest();
        }
    }

    /// Takes in a job.
    pub(super) fn insert(&mut self, id: JobId, record: Box<Record>) {
        self.active.insert(id, record);
    }

    /// Forgets a job.
    pub(super) fn remove(&mut self, id: &JobId) {
        self.active.remove(id);
        self.over.remove(id);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.active.len() + self.over.len()
    }

    /// Those that are active, or were so a moment ago, in no order.
    pub(super) fn active(&self) -> impl Iterator<Item = &Record> {
        self.active.values().map(|record| &**record)
    }

    /// One that is folded.
    pub(super) fn over(&self, id: JobId) -> Option<&Over> {
        self.over.get(&id)
    }

    /// The ids of those that are folded, in no order.
    pub(super) fn ids_over(&self) -> impl Iterator<Item = JobId> {
        self.over.keys().copied()
    }

    /// Folds a job that came back from the store, over, with its summary.
    pub(super) fn fold_as(&mut self, id: JobId, summary: String) {
        if let Some(record) = self.active.remove(&id) {
            self.over.insert(id, Over::new(record, summary));
        }
    }

    /// Folds a job if it is over and nobody is at work on it; gives the summary, to be stored.
    pub(super) fn fold(&mut self, id: JobId) -> Option<String> {
        let record = self.active.get(&id)?;
        if record.job.state != State::Inactive || !record.is_at_rest() {
            return None;
        }
        let record = self.active.remove(&id)?;
        let summary = summary::write(&record);
        self.over.insert(id, Over::new(record, summary.clone()));
        Some(summary)
    }

    /// Folds again what was unfolded; gives the summaries that are others now.
    pub(super) fn refold(&mut self) -> Vec<(JobId, String)> {
        let mut news = Vec::new();
        for id in std::mem::take(&mut self.changed) {
            let Some(over) = self.over.get_mut(&id) else { continue };
            let Some(record) = over.record.get() else { continue };
            let summary = summary::write(record);
            if *summary != *over.summary {
                over.summary = summary.as_str().into();
                news.push((id, summary));
            }
        }
        for id in self.looked_at.get_mut().drain(..) {
            if let Some(over) = self.over.get_mut(&id) {
                over.record.take();
            }
        }
        news
    }
}
