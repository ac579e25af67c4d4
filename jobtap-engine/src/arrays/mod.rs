//! Job arrays: many jobs that one request submits, of which the engine keeps one jobspec.
//!
//! An element of an array becomes a job when its turn comes: a few are always ahead, so that schedulers choose among them
//! as among other jobs. What is true of a job is true of them: plugins see each at its submission, and may refuse it. A
//! refused element waits, and is tried again; only a refusal of the first one refuses the array.
//!
//! An array has an id of its own, which is no job's, and keys of its own: `J`, `jobspec` and `elements`, and an eventlog
//! that says which elements have become jobs, and how these have ended.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | all arrays |
//! | `array` | one array: its elements by what has become of them |
//! | `log` | the events of an array |
//! | `make` | how elements become jobs |

mod array;
mod log;
pub(crate) mod make;

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

pub(crate) use self::array::{Array, Origin};
pub use self::log::ArrayLogError;
use crate::api::{Effects, ReplyTo, Write};
use crate::eventlog::EventEntry;
use crate::job::{JobId, JobResult, State, Timestamp, Uid, Urgency};
use crate::jobs::{Jobs, Record};
use crate::resource::Idset;

/// The prefix of the keys of arrays. The id of the array follows, a dot, and the [name](ArrayKey) of the key.
pub const ARRAY: &str = "jobtap.array.";

/// The keys of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayKey {
    /// The request that has submitted it, as of a job.
    Request,
    /// Its jobspec, without the environment.
    Jobspec,
    /// Its [`Elements`](crate::array::Elements).
    Elements,
    /// The environment, if plugins have changed it at the submission.
    Environment,
    /// The log of its events.
    Eventlog,
}

impl ArrayKey {
    const ALL: [Self; 5] =
        [Self::Request, Self::Jobspec, Self::Elements, Self::Environment, Self::Eventlog];

    /// The last part of the key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "J",
            Self::Jobspec => "jobspec",
            Self::Elements => "elements",
            Self::Environment => "environment",
            Self::Eventlog => "eventlog",
        }
    }

    /// The key of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The whole key.
    pub fn of(self, id: JobId) -> String {
        format!("{ARRAY}{}.{}", id.as_u64(), self.name())
    }

    /// The array that has its events under this key.
    pub fn array_of_log(key: &str) -> Option<JobId> {
        let id = key.strip_prefix(ARRAY)?.strip_suffix(".eventlog")?;
        id.parse().ok().map(JobId::new)
    }
}

/// All arrays of which the manager knows a job.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    by_id: BTreeMap<JobId, Array>,
    /// The elements that are jobs, and not inactive, with their positions.
    active: FxHashMap<JobId, (JobId, u32)>,
    /// The arrays with elements that aren't jobs yet.
    open: BTreeSet<JobId>,
    /// Those of them for which something has happened since elements were made: they may have room for more.
    ready: BTreeSet<JobId>,
    /// Those of them whose elements are refused.
    refused: BTreeSet<JobId>,
    /// Elements that have become jobs, or are to, and have no resources yet, by user.
    ahead: FxHashMap<Uid, usize>,
    /// Jobs that were submitted again and haven't ended, with their arrays.
    replaced: FxHashMap<JobId, JobId>,
    /// Arrays to which something has happened in this turn.
    changed: BTreeSet<JobId>,
    /// Whether jobs were purged.
    may_purge: bool,
    /// Whether the timer is set that tries a refused element again.
    is_timed: bool,
}

impl Arrays {
    /// An array that was accepted.
    pub(crate) fn get(&self, id: JobId) -> Option<&Array> {
        self.by_id.get(&id).filter(|array| array.is_accepted())
    }

    fn get_mut(&mut self, id: JobId) -> Option<&mut Array> {
        self.by_id.get_mut(&id)
    }

    /// All accepted arrays, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Array> {
        self.by_id.values().filter(|array| array.is_accepted())
    }

    /// The ids of the accepted arrays that satisfy this.
    pub(crate) fn ids_where(&self, matches: impl Fn(&Array) -> bool) -> Vec<JobId> {
        self.iter().filter(|array| matches(array)).map(Array::id).collect()
    }

    /// The accepted arrays with elements that aren't jobs yet.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Array> {
        self.open.iter().filter_map(|id| self.get(*id))
    }

    /// The number of elements that aren't jobs yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.open().map(|array| array.waiting() as u64).sum()
    }

    /// Notes that the timer has fired that tries a refused element again.
    pub(crate) fn timer_has_fired(&mut self) {
        self.is_timed = false;
        self.ready.extend(&self.refused);
    }

    /// Takes the arrays that may have room for more jobs.
    fn take_ready(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.ready)
    }

    /// How many elements of a user are jobs without resources, or are to become jobs.
    fn ahead_of(&self, userid: Uid) -> usize {
        self.ahead.get(&userid).copied().unwrap_or_default()
    }

    /// Counts an element that is ahead, or that isn't any longer.
    fn count_ahead(&mut self, userid: Uid, more: bool) {
        let count = self.ahead.entry(userid).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.ahead.remove(&userid);
        }
    }

    /// The urgency of a new element's array.
    pub(crate) fn urgency_of(&self, job: JobId) -> Option<Urgency> {
        let (id, _) = self.active.get(&job)?;
        self.by_id.get(id).map(Array::urgency)
    }

    /// Whether a job that isn't accepted yet is an element that was canceled.
    pub(crate) fn is_unwanted(&self, job: JobId) -> bool {
        let place = self.active.get(&job);
        place.is_some_and(|(id, position)| {
            self.by_id.get(id).is_some_and(|array| array.is_unwanted(*position))
        })
    }

    /// Whether an active job is an element of an array.
    pub(crate) fn is_element(&self, job: JobId) -> bool {
        self.active.contains_key(&job)
    }

    /// Adds an array whose first element is at the gates.
    fn begin(&mut self, array: Array) {
        self.open.insert(array.id());
        self.by_id.insert(array.id(), array);
    }

    /// Removes an array whose first element was refused.
    fn refuse(&mut self, id: JobId) {
        self.open.remove(&id);
        self.by_id.remove(&id);
    }

    /// Adds an array from the store.
    pub(crate) fn restore(&mut self, array: Array) {
        let id = array.id();
        self.active.extend(array.active_jobs().map(|(position, job)| (job, (id, position))));
        if array.waiting() > 0 {
            self.open.insert(id);
            self.ready.insert(id);
        }
        self.by_id.insert(id, array);
    }

    /// Notes that an element is at the gates as this job.
    fn note_made(&mut self, id: JobId, position: u32, job: JobId) {
        self.active.insert(job, (id, position));
        if let Some(userid) = self.by_id.get(&id).map(Array::userid) {
            self.count_ahead(userid, true);
        }
    }

    /// Notes that a job was accepted. If it is the first element of an array, returns the array, which is accepted by
    /// that.
    pub(crate) fn accepted(
        &mut self,
        effects: &mut Effects,
        now: Timestamp,
        job: JobId,
    ) -> Option<JobId> {
        let (id, position) = *self.active.get(&job)?;
        let array = self.by_id.get_mut(&id)?;
        self.changed.insert(id);
        self.ready.insert(id);
        self.refused.remove(&id);
        let is_first = array.accepted(now, position, job);
        if is_first {
            store(effects, array);
        }
        is_first.then_some(id)
    }

    /// Notes that a job takes the place of one that is submitted again, before that one ends.
    pub(crate) fn replace(&mut self, now: Timestamp, old: JobId, new: JobId) {
        let Some((id, position)) = self.active.remove(&old) else { return };
        let Some(array) = self.by_id.get_mut(&id) else { return };
        let userid = array.userid();
        self.active.insert(new, (id, position));
        array.accepted(now, position, new);
        self.changed.insert(id);
        self.replaced.insert(old, id);
        self.count_ahead(userid, true);
    }

    /// Notes that no job takes the place of one that was to be submitted again, and that may have ended meanwhile.
    pub(crate) fn keep(&mut self, jobs: &Jobs, old: JobId) {
        if let Some(record) = jobs.get(old).filter(|record| record.job.state() == State::Inactive) {
            self.follow(record, State::Cleanup, false);
        }
    }

    /// Notes that a job was refused. Its element waits, or its array was refused by that.
    /// Returns the array if its elements can never become jobs, since what they depend on can't be satisfied.
    pub(crate) fn refused(
        &mut self,
        now: Timestamp,
        job: JobId,
        reason: &str,
        by_dependency: bool,
    ) -> Option<JobId> {
        let (id, position) = self.active.remove(&job)?;
        let array = self.by_id.get_mut(&id)?;
        let userid = array.userid();
        if array.is_accepted() {
            array.refused(now, position, reason);
            if by_dependency {
                array.drop_all_waiting();
            }
            self.changed.insert(id);
            self.refused.insert(id);
        } else {
            self.refuse(id);
        }
        self.count_ahead(userid, false);
        by_dependency.then_some(id)
    }

    /// Follows a job from one state to the next. If it is to be submitted again (`is_requeued`), its end isn't that of its
    /// element. Returns the array if its elements can never become jobs, since what they depend on can't be satisfied.
    pub(crate) fn follow(
        &mut self,
        record: &Record,
        left: State,
        is_requeued: bool,
    ) -> Option<JobId> {
        let (job, state) = (record.job.id(), record.job.state());
        let end = record.job.kept().times.inactive();
        if state == State::Inactive
            && let Some(id) = self.replaced.remove(&job)
        {
            self.by_id.get_mut(&id)?.note_end(end);
            return None;
        }
        let &(id, position) = self.active.get(&job)?;
        let array = self.by_id.get_mut(&id)?;
        let userid = array.userid();
        self.ready.insert(id);
        let leaves = is_pending(left) && !is_pending(state);
        if leaves {
            array.left_pending(position);
        }
        if left == State::Depend && state == State::Priority {
            let met = record.job.kept().times.priority.get();
            array.dependencies_met(met.unwrap_or(record.job.t_submit()));
            self.changed.insert(id);
        }
        // As by a job that can't succeed any more.
        let is_hopeless = left == State::Depend
            && state > State::Run
            && record.exception.as_ref().is_some_and(is_about_dependency);
        if is_hopeless {
            array.drop_all_waiting();
            self.changed.insert(id);
        }
        if state == State::Inactive && !is_requeued {
            self.active.remove(&job);
            array.ended(end, position, record.result().unwrap_or(JobResult::Failed));
            self.changed.insert(id);
        }
        if leaves {
            self.count_ahead(userid, false);
        }
        is_hopeless.then_some(id)
    }

    /// Writes what has happened to arrays in this turn, beside what has happened to their jobs. Responds to those who
    /// wait for an array that has ended.
    pub(crate) fn write(&mut self, effects: &mut Effects, now: Timestamp) {
        for id in std::mem::take(&mut self.changed) {
            let Some(array) = self.by_id.get_mut(&id).filter(|array| array.is_accepted()) else {
                continue;
            };
            let (first, entries) = array.take_entries(now);
            for (seq, entry) in (first..).zip(entries) {
                let (key, line) = (ArrayKey::Eventlog.of(id), entry.encode());
                effects.writes.push(Write::AppendInstance { key, seq, line });
            }
            if array.has_all_made() {
                self.open.remove(&id);
                self.refused.remove(&id);
                array.shrink();
            }
            if array.is_over() {
                let response = array.response();
                for waiter in array.take_waiters() {
                    effects.reply(waiter, Ok(response.clone()));
                }
            }
        }
    }

    /// Changes an array by a request, and notes that it has to be written.
    pub(crate) fn change(&mut self, id: JobId) -> Option<&mut Array> {
        let array = self.by_id.get_mut(&id).filter(|array| array.is_accepted())?;
        self.changed.insert(id);
        self.ready.insert(id);
        Some(array)
    }

    /// Counts the elements that are pending jobs, once all jobs are restored. A job that could not be restored has
    /// failed.
    pub(crate) fn count_restored(&mut self, jobs: &Jobs) {
        let mut ahead = Vec::new();
        for (id, array) in &mut self.by_id {
            let mut pending = Idset::new();
            for (position, job) in array.active_jobs().collect::<Vec<_>>() {
                match jobs.state(job) {
                    Some(state) if is_pending(state) => {
                        pending.insert(position);
                        ahead.push(array.userid());
                    }
                    // An inactive one was to be submitted again.
                    Some(State::Inactive) | None => {
                        let record = jobs.get(job);
                        let end = record.and_then(|record| record.job.kept().times.inactive());
                        let result = record.and_then(Record::result).unwrap_or(JobResult::Failed);
                        self.active.remove(&job);
                        array.ended(end, position, result);
                        self.changed.insert(*id);
                    }
                    Some(_) => {}
                }
            }
            array.restore_pending(pending);
        }
        ahead.into_iter().for_each(|userid| self.count_ahead(userid, true));
    }

    /// Removes a waiter whose client has gone.
    pub(crate) fn abandon(&mut self, reply: ReplyTo) {
        self.by_id.values_mut().for_each(|array| array.abandon(reply));
    }

    /// Notes that a job was purged.
    pub(crate) fn note_purge(&mut self) {
        self.may_purge = true;
    }

    /// Removes the arrays that have ended before the oldest job that is kept: all their jobs are purged.
    pub(crate) fn purge(&mut self, effects: &mut Effects, oldest: Option<Timestamp>) {
        if !std::mem::take(&mut self.may_purge) {
            return;
        }
        let is_old = |array: &&Array| {
            let end = array.end();
            end.is_some_and(|end| oldest.is_none_or(|oldest| end < oldest))
        };
        let old: Vec<JobId> = self.iter().filter(is_old).map(Array::id).collect();
        for id in old {
            self.by_id.remove(&id);
            for key in ArrayKey::ALL {
                effects.writes.push(Write::RemoveInstance { key: key.of(id) });
            }
        }
    }
}

/// Whether an exception says that a dependency can't be satisfied.
fn is_about_dependency(exception: &Arc<EventEntry>) -> bool {
    let kind = exception.context.as_ref().and_then(|context| context.get("type"));
    kind.and_then(Value::as_str) == Some("dependency")
}

/// Whether a job in this state has no resources yet.
fn is_pending(state: State) -> bool {
    matches!(state, State::New | State::Depend | State::Priority | State::Sched)
}

/// Stores a new array.
fn store(effects: &mut Effects, array: &mut Array) {
    let id = array.id();
    let Some(Origin { signed, environment }) = array.take_origin() else { return };
    let mut put = |key: ArrayKey, value: String| {
        effects.writes.push(Write::PutInstance { key: key.of(id), value });
    };
    put(ArrayKey::Request, signed);
    put(ArrayKey::Jobspec, array.jobspec().text().to_owned());
    put(ArrayKey::Elements, serde_json::to_string(array.elements()).unwrap_or_default());
    if let Some(environment) = environment {
        put(ArrayKey::Environment, environment);
    }
}
