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

use rustc_hash::FxHashMap;

pub(crate) use self::array::{Array, Origin};
pub use self::log::ArrayLogError;
use crate::api::{Effects, ReplyTo, Write};
use crate::job::{JobId, JobResult, State, Timestamp};
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
    /// Arrays to which something has happened in this turn.
    changed: BTreeSet<JobId>,
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
        }
        self.by_id.insert(id, array);
    }

    /// Notes that an element is at the gates as this job.
    fn note_made(&mut self, id: JobId, position: u32, job: JobId) {
        self.active.insert(job, (id, position));
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
        let is_first = array.accepted(now, position, job);
        if is_first {
            store(effects, array);
        }
        is_first.then_some(id)
    }

    /// Notes that a job takes the place of one that is submitted again, before that one ends.
    pub(crate) fn replace(&mut self, now: Timestamp, old: JobId, new: JobId) {
        let Some((id, position)) = self.active.remove(&old) else { return };
        if let Some(array) = self.by_id.get_mut(&id) {
            self.active.insert(new, (id, position));
            array.accepted(now, position, new);
            self.changed.insert(id);
        }
    }

    /// Notes that a job was refused. Its element waits, or its array was refused by that.
    pub(crate) fn refused(&mut self, now: Timestamp, job: JobId, reason: &str) {
        let Some((id, position)) = self.active.remove(&job) else { return };
        let Some(array) = self.by_id.get_mut(&id) else { return };
        if array.is_accepted() {
            array.refused(now, position, reason);
        } else {
            self.refuse(id);
        }
    }

    /// Follows a job from one state to the next.
    pub(crate) fn follow(&mut self, record: &Record, left: State) {
        let job = record.job.id();
        let Some(&(id, position)) = self.active.get(&job) else { return };
        let Some(array) = self.by_id.get_mut(&id) else { return };
        let state = record.job.state();
        if is_pending(left) && !is_pending(state) {
            array.left_pending(position);
        }
        if state == State::Inactive {
            self.active.remove(&job);
            array.ended(position, record.result().unwrap_or(JobResult::Failed));
            self.changed.insert(id);
        }
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
        Some(array)
    }

    /// Counts the elements that are pending jobs, once all jobs are restored. A job that could not be restored has
    /// failed.
    pub(crate) fn count_restored(&mut self, jobs: &Jobs) {
        for (id, array) in &mut self.by_id {
            let mut pending = Idset::new();
            for (position, job) in array.active_jobs().collect::<Vec<_>>() {
                match jobs.state(job) {
                    Some(state) if is_pending(state) => drop(pending.insert(position)),
                    Some(_) => {}
                    None => {
                        self.active.remove(&job);
                        array.ended(position, JobResult::Failed);
                        self.changed.insert(*id);
                    }
                }
            }
            array.restore_pending(pending);
        }
    }

    /// Removes a waiter whose client has gone.
    pub(crate) fn abandon(&mut self, reply: ReplyTo) {
        self.by_id.values_mut().for_each(|array| array.abandon(reply));
    }

    /// Removes the arrays that have ended before the oldest job that is kept: all their jobs are purged.
    pub(crate) fn purge(&mut self, effects: &mut Effects, oldest: Option<Timestamp>) {
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
