//! The changes that a commit makes, by row.

use std::collections::BTreeMap;
use std::ops::Bound;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::bundle::Bundle;
use super::rows::{self, Name};

/// The new value of a row, or `None` if the row is removed.
type Change = Option<Vec<u8>>;

/// The changes of a commit. Each row occurs at most once.
///
/// A commit changes thousands of rows, a few per job, so the rows of a job are a short list: looking up their names in
/// an ordered map of all changes took a quarter of the committing thread's time.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Keyed by job id, in the order in which the jobs first changed.
    jobs: IndexMap<u64, OfJob, FxBuildHasher>,
    /// The highest id among the jobs that were stored before this commit.
    known: Option<u64>,
    /// The rows that belong to no job.
    others: BTreeMap<Name, Change>,
}

/// The changes of one job.
#[derive(Debug, Default)]
struct OfJob {
    /// What the commit writes to the job's frequent keys, as one new row.
    bundle: Bundle,
    /// The other rows.
    rows: Vec<(Name, Change)>,
}

impl Changes {
    /// The single change that sets this row to `value`.
    pub(super) fn single(name: Name, value: Vec<u8>) -> Self {
        let mut changes = Self::default();
        changes.set(name, Some(value));
        changes
    }

    /// No changes yet. No job in the store has a higher id than `known`.
    pub(super) fn after(known: Option<u64>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The ids of the changed jobs.
    pub(super) fn jobs(&self) -> impl Iterator<Item = u64> {
        self.jobs.keys().copied()
    }

    /// The change of a row; `None` if the row isn't changed.
    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Change> {
        match rows::job_of(name) {
            Some(id) => {
                let rows = &mut self.jobs.get_mut(&id)?.rows;
                rows.iter_mut().find(|(row, _)| **row == *name).map(|(_, change)| change)
            }
            None => self.others.get_mut(name),
        }
    }

    /// Sets the change of a row, and replaces an earlier one.
    pub(super) fn set(&mut self, name: Name, change: Change) {
        if let Some(before) = self.get_mut(&name) {
            *before = change;
            return;
        }
        match rows::job_of(&name) {
            Some(id) => self.jobs.entry(id).or_default().rows.push((name, change)),
            None => drop(self.others.insert(name, change)),
        }
    }

    /// The bundle of this commit for a job.
    pub(super) fn bundle(&mut self, id: u64) -> &mut Bundle {
        &mut self.jobs.entry(id).or_default().bundle
    }

    /// Turns the changes of rows whose names begin with `prefix` into removals. A prefix of a job's rows must contain
    /// the whole id. Leaves the bundle of the job.
    pub(super) fn remove(&mut self, prefix: &[u8]) {
        if let Some(id) = rows::job_of(prefix) {
            let rows = self.jobs.get_mut(&id).into_iter().flat_map(|job| &mut job.rows);
            let matching = rows.filter(|(name, _)| name.starts_with(prefix));
            matching.for_each(|(_, change)| *change = None);
            return;
        }
        let end = rows::after(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for (_, change) in self.others.range_mut::<[u8], _>((Bound::Included(prefix), end)) {
            *change = None;
        }
    }

    /// The changed rows, each once. `commit` is the number of the commit, which is part of the names of bundles' rows.
    pub(super) fn into_rows(self, commit: u64) -> impl Iterator<Item = (Name, Change)> {
        let known = self.known;
        let of_job = move |(id, OfJob { bundle, rows }): (u64, OfJob)| {
            let is_first = known < Some(id);
            let name =
                if is_first { rows::of_first_bundle(id) } else { rows::of_bundle(id, commit) };
            let bundled = (!bundle.is_empty()).then(|| (name, Some(bundle.encode())));
            bundled.into_iter().chain(rows)
        };
        self.jobs.into_iter().flat_map(of_job).chain(self.others)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::Key;

    #[derive(Clone, Debug)]
    enum Step {
        Set(Key, Option<u64>, Change),
        Remove(Key),
        RemoveJob(u64),
    }

    fn key() -> impl Strategy<Value = Key> {
        let names = prop::sample::select(vec!["R", "eventlog", "event", "guest.exec.eventlog"]);
        let job = (0..4u64, names).prop_map(|(id, name)| Key::job(id, name).unwrap());
        let instance = prop::sample::select(vec!["a", "a.b", "resource.eventlog"]);
        prop_oneof![job, instance.prop_map(|name| Key::instance(name).unwrap())]
    }

    fn step() -> impl Strategy<Value = Step> {
        let change = prop::option::of(prop::collection::vec(any::<u8>(), 0..3));
        prop_oneof![
            4 => (key(), prop::option::of(0..3u64), change)
                .prop_map(|(key, seq, change)| Step::Set(key, seq, change)),
            1 => key().prop_map(Step::Remove),
            1 => (0..4u64).prop_map(Step::RemoveJob),
        ]
    }

    proptest! {
        #[test]
        fn they_are_those_of_an_ordered_map(steps in prop::collection::vec(step(), 0..40)) {
            let mut changes = Changes::default();
            let mut map = BTreeMap::new();
            for step in steps {
                let prefix = match step {
                    Step::Set(key, seq, change) => {
                        let name = match seq {
                            Some(seq) => rows::of_record(&key, seq),
                            None => rows::of_value(&key),
                        };
                        prop_assert_eq!(changes.get_mut(&name), map.get_mut(&name));
                        changes.set(name.clone(), change.clone());
                        map.insert(name, change);
                        continue;
                    }
                    Step::Remove(key) => rows::of_log(&key),
                    Step::RemoveJob(id) => rows::of_job(id),
                };
                changes.remove(&prefix);
                let matching = map.iter_mut().filter(|(name, _)| name.starts_with(&prefix));
                matching.for_each(|(_, change)| *change = None);
            }
            let rows: Vec<_> = changes.into_rows(1).collect();
            prop_assert_eq!(rows.len(), map.len());
            prop_assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), map);
        }
    }
}
