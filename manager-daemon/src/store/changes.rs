//! The changes that a commit makes, by row.

use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::rows::{self, Name};

/// What becomes of a row: its new value, or `None` if it is removed.
type Change = Option<Vec<u8>>;

/// The changes of a commit. Each row is in them once.
///
/// A commit changes thousands of rows, a few of each job. So those of a job are a short list: to look their names up in
/// an ordered map of all changes took a quarter of the time of the committing thread.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// In the order in which the jobs first changed.
    jobs: Vec<Vec<(Name, Change)>>,
    /// Where the rows of a job are in `jobs`.
    places: FxHashMap<u64, usize>,
    /// The rows that are no job's.
    others: BTreeMap<Name, Change>,
}

impl Changes {
    /// Only that this row gets this value.
    pub(super) fn of(name: Name, value: Vec<u8>) -> Self {
        let mut changes = Self::default();
        changes.set(name, Some(value));
        changes
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.jobs.iter().map(Vec::len).sum::<usize>() + self.others.len()
    }

    /// What becomes of a row; `None` if it isn't changed.
    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Change> {
        match rows::job_of(name) {
            Some(id) => {
                let rows = self.jobs.get_mut(*self.places.get(&id)?)?;
                rows.iter_mut().find(|(row, _)| **row == *name).map(|(_, change)| change)
            }
            None => self.others.get_mut(name),
        }
    }

    /// Says what becomes of a row, whatever was said of it before.
    pub(super) fn set(&mut self, name: Name, change: Change) {
        if let Some(before) = self.get_mut(&name) {
            *before = change;
            return;
        }
        let Some(id) = rows::job_of(&name) else {
            self.others.insert(name, change);
            return;
        };
        let place = *self.places.entry(id).or_insert(self.jobs.len());
        match self.jobs.get_mut(place) {
            Some(rows) => rows.push((name, change)),
            None => self.jobs.push(vec![(name, change)]),
        }
    }

    /// Removes those of the changed rows whose names begin with `prefix`, which is no shorter than that of a job's rows
    /// if it is one of them.
    pub(super) fn remove(&mut self, prefix: &[u8]) {
        if let Some(id) = rows::job_of(prefix) {
            let rows = self.places.get(&id).and_then(|place| self.jobs.get_mut(*place));
            let matching = rows.into_iter().flatten().filter(|(name, _)| name.starts_with(prefix));
            matching.for_each(|(_, change)| *change = None);
            return;
        }
        let end = rows::after(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for (_, change) in self.others.range_mut::<[u8], _>((Bound::Included(prefix), end)) {
            *change = None;
        }
    }
}

impl IntoIterator for Changes {
    type Item = (Name, Change);
    type IntoIter = std::iter::Chain<
        std::iter::Flatten<std::vec::IntoIter<Vec<(Name, Change)>>>,
        std::collections::btree_map::IntoIter<Name, Change>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.jobs.into_iter().flatten().chain(self.others)
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
            prop_assert_eq!(changes.len(), map.len());
            prop_assert_eq!(changes.into_iter().collect::<BTreeMap<_, _>>(), map);
        }
    }
}
