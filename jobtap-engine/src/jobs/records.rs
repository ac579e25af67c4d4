//! The jobs that are kept as records, by id.
//!
//! An event of a job makes a dozen parts of the engine look the job up, one after the other: a simulated job is looked
//! up 130 times. So the place of the last job that was found is remembered, and the table is searched only for another
//! job.

use std::cell::Cell;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;

use super::record::Record;
use crate::job::JobId;

/// Records by the ids of their jobs.
#[derive(Debug, Default)]
pub(super) struct Records {
    table: HashTable<Box<Record>>,
    /// The place of the last job that was found. Another job may be there now, or none.
    last: Cell<usize>,
}

impl Records {
    /// The record of a job.
    pub(super) fn get(&self, id: JobId) -> Option<&Record> {
        self.table.get_bucket(self.place(id)?).map(|record| &**record)
    }

    /// The record of a job, to change it.
    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Record> {
        let place = self.place(id)?;
        self.table.get_bucket_mut(place).map(|record| &mut **record)
    }

    #[inline]
    fn place(&self, id: JobId) -> Option<usize> {
        let last = self.last.get();
        if self.table.get_bucket(last).is_some_and(|record| record.job.id() == id) {
            return Some(last);
        }
        let place = self.table.find_bucket_index(hash(id), |record| record.job.id() == id)?;
        self.last.set(place);
        Some(place)
    }

    /// Adds a job, or replaces it.
    pub(super) fn insert(&mut self, record: Box<Record>) {
        let id = record.job.id();
        let found =
            self.table.entry(hash(id), |known| known.job.id() == id, |known| hash(known.job.id()));
        match found {
            Entry::Occupied(mut known) => *known.get_mut() = record,
            Entry::Vacant(place) => drop(place.insert(record)),
        }
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Box<Record>> {
        let found = self.table.find_entry(hash(id), |record| record.job.id() == id).ok()?;
        Some(found.remove().0)
    }

    /// All records, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.table.iter().map(|record| &**record)
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

fn hash(id: JobId) -> u64 {
    FxBuildHasher.hash_one(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::jobspec::Jobspec;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64),
        Change(u64),
        Remove(u64),
        Look(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        // Few ids, so that jobs come back and take each other's places.
        let id = 0..40u64;
        prop_oneof![
            id.clone().prop_map(Step::Insert),
            id.clone().prop_map(Step::Change),
            id.clone().prop_map(Step::Remove),
            id.prop_map(Step::Look),
        ]
    }

    fn jobspec() -> Jobspec {
        Jobspec::stored("{}".to_owned()).unwrap()
    }

    proptest! {
        /// A remembered place must never show another job, however jobs come and go.
        #[test]
        fn a_job_is_found_as_in_a_map(steps in prop::collection::vec(any_step(), 0..300)) {
            let (mut records, mut known) = (Records::default(), BTreeMap::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(id) => {
                        let mut record = Record::stored(JobId::new(id), jobspec());
                        record.lines.main = number as u64;
                        records.insert(Box::new(record));
                        known.insert(id, number as u64);
                    }
                    Step::Change(id) => {
                        let found = records.get_mut(JobId::new(id));
                        prop_assert_eq!(found.is_some(), known.contains_key(&id));
                        if let Some(record) = found {
                            record.lines.main = number as u64;
                            known.insert(id, number as u64);
                        }
                    }
                    Step::Remove(id) => {
                        let removed = records.remove(JobId::new(id)).map(|record| record.lines.main);
                        prop_assert_eq!(removed, known.remove(&id));
                    }
                    Step::Look(id) => {
                        let found = records.get(JobId::new(id));
                        let found = found.map(|record| (record.job.id().as_u64(), record.lines.main));
                        prop_assert_eq!(found, known.get(&id).map(|number| (id, *number)));
                    }
                }
                prop_assert_eq!(records.len(), known.len());
            }
            let mut all: Vec<u64> = records.iter().map(|record| record.job.id().as_u64()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, known.into_keys().collect::<Vec<_>>());
        }
    }
}
