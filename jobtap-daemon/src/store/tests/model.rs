//! Random histories: after every commit and every restart, a store has the same content as a map.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use crate::store::memory::MemoryStore;
use crate::store::{EmbeddedStore, Key, Op, Store, StoredEntry, StoredJob, request};

/// Few jobs and names, so that operations often concern the same keys; ids at the edges of the byte order.
const IDS: [u64; 5] = [0, 1, 0xff, 0x1_0000_0000, u64::MAX];
const VALUES: [&str; 4] = ["J", "jobspec", "R", "data.x"];
const LOGS: [&str; 3] = ["eventlog", "guest.exec.eventlog", "data"];

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    Reopen,
    Flush,
}

#[derive(Clone, Debug)]
enum Change {
    Put(Key, Vec<u8>),
    Append(Key, Vec<u8>),
    Remove(Key),
    RemoveJob(u64),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    values: BTreeMap<Key, Vec<u8>>,
    logs: BTreeMap<Key, Vec<u8>>,
    seqs: BTreeMap<Key, u64>,
}

impl Model {
    fn apply(&mut self, change: Change) -> Op {
        match change {
            Change::Put(key, value) => {
                self.values.insert(key.clone(), request::shown(key.name(), value.clone()));
                Op::Put { key, value }
            }
            Change::Append(key, value) => {
                self.logs.entry(key.clone()).or_default().extend(&value);
                let next = self.seqs.entry(key.clone()).or_default();
                // Gaps are allowed, and the middle of the range is where signs go wrong.
                *next = (*next + 1).max(1 << 63);
                Op::Append { key, seq: *next, value }
            }
            Change::Remove(key) => {
                self.values.remove(&key);
                self.logs.remove(&key);
                Op::Remove { key }
            }
            Change::RemoveJob(id) => {
                self.values.retain(|key, _| key.job_id() != Some(id));
                self.logs.retain(|key, _| key.job_id() != Some(id));
                Op::RemoveJob(id)
            }
        }
    }

    fn jobs(&self) -> Vec<StoredJob> {
        let mut jobs: BTreeMap<u64, BTreeMap<String, StoredEntry>> = BTreeMap::new();
        for (key, value) in self.values.iter().chain(&self.logs) {
            let Some(id) = key.job_id() else { continue };
            let entry = StoredEntry {
                name: key.name().to_owned(),
                value: value.clone(),
                next_seq: self.logs.get(key).map(|_| self.seqs[key] + 1),
            };
            let job = jobs.entry(id).or_default();
            job.insert(key.name().to_owned(), entry);
        }
        let job = |(id, entries): (u64, BTreeMap<_, _>)| StoredJob {
            id,
            entries: entries.into_values().collect(),
        };
        jobs.into_iter().map(job).collect()
    }

    fn instance_values(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let values = self.values.iter().filter(|(key, _)| key.job_id().is_none());
        values
            .map(|(key, value)| (key.name().to_owned(), value.clone()))
            .filter(|(name, _)| name.starts_with(prefix))
            .collect()
    }

    fn check(&self, store: &dyn Store) {
        let mut jobs = Vec::new();
        store
            .scan_jobs(&|_| true, &mut |job| {
                jobs.push(job);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(jobs, self.jobs());
        let ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(store.job_ids().unwrap(), ids);
        let mut keys: Vec<Key> = self.values.keys().chain(self.logs.keys()).cloned().collect();
        keys.sort();
        assert_eq!(store.list("").unwrap(), keys);
        for prefix in ["job.", "job.0000.0000", "job.ffff.ffff.ffff.ffff.", "jo", "c", "x"] {
            let mut some = keys.clone();
            some.retain(|key| key.starts_with(prefix));
            assert_eq!(store.list(prefix).unwrap(), some);
        }
        for prefix in ["", "jobtap.", "jobtap.job.", "jobtap.job.f", "jobtap.jobs", "x"] {
            let mut some = Vec::new();
            store
                .scan_values(prefix, &mut |name, value| {
                    some.push((name.to_owned(), value.to_vec()));
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(some, self.instance_values(prefix));
        }
        for key in all_keys() {
            assert_eq!(store.get(&key).unwrap(), self.values.get(&key).cloned());
            assert_eq!(store.read_log(&key).unwrap(), self.logs.get(&key).cloned());
        }
    }
}

/// Names around those of the index, whose rows the embedded store has in another keyspace.
fn instance_values() -> Vec<Key> {
    let names = ["jobtap.indexed", "jobtap.job.01", "jobtap.job.ff", "jobtap.jobs", "zebra"];
    let mut keys: Vec<Key> = names.iter().map(|name| Key::instance(name).unwrap()).collect();
    keys.push(Key::checkpoint());
    keys
}

fn all_keys() -> Vec<Key> {
    let mut keys = vec![Key::instance("resource.eventlog").unwrap()];
    keys.extend(instance_values());
    for id in IDS {
        for name in VALUES.iter().chain(&LOGS) {
            keys.push(Key::job(id, name).unwrap());
        }
    }
    keys
}

fn change() -> impl Strategy<Value = Change> {
    let id = || proptest::sample::select(IDS.to_vec());
    let job_key = |names: &[&'static str]| {
        (id(), proptest::sample::select(names.to_vec()))
            .prop_map(|(id, name)| Key::job(id, name).unwrap())
    };
    let value_key = prop_oneof![
        4 => job_key(&VALUES),
        1 => proptest::sample::select(instance_values()),
    ];
    let instance_log = Just(Key::instance("resource.eventlog").unwrap());
    let log_key = prop_oneof![9 => job_key(&LOGS), 1 => instance_log];
    let bytes = || {
        prop_oneof![
            9 => proptest::collection::vec(any::<u8>(), 0..20),
            // Long enough for the write-ahead log to compress it.
            1 => (any::<u8>(), 4000..6000usize).prop_map(|(byte, len)| vec![byte; len]),
            // A signed request, and jobspecs that differ little from the one in the request.
            2 => (0..3u8, prop::bool::ANY).prop_map(|(n, signed)| {
                let jobspec = format!("{}{n}{}", "a".repeat(70), "b".repeat(40));
                match signed {
                    true => request::unsigned(1000, jobspec).into_bytes(),
                    false => jobspec.into_bytes(),
                }
            }),
            // Too long for a bundle, alone or together.
            1 => (any::<u8>(), 100_000..300_000usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    };
    let any_key = proptest::sample::select(all_keys());
    prop_oneof![
        3 => (value_key, bytes()).prop_map(|(key, value)| Change::Put(key, value)),
        6 => (log_key, bytes()).prop_map(|(key, value)| Change::Append(key, value)),
        1 => any_key.prop_map(Change::Remove),
        1 => id().prop_map(Change::RemoveJob),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => proptest::collection::vec(change(), 0..8).prop_map(Step::Commit),
        1 => Just(Step::Reopen),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_embedded_store_is_a_map_that_survives(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = EmbeddedStore::open(dir.path()).unwrap();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Commit(changes) => {
                    let ops = changes.into_iter().map(|change| model.apply(change)).collect();
                    store.commit(ops).unwrap();
                }
                Step::Reopen => {
                    drop(store);
                    store = EmbeddedStore::open(dir.path()).unwrap();
                }
                Step::Flush => store.flush_to_table(),
            }
            model.check(&store);
        }
    }

    #[test]
    fn the_memory_store_is_a_map(steps in steps()) {
        let store = MemoryStore::default();
        let mut model = Model::default();
        for step in steps {
            if let Step::Commit(changes) = step {
                let ops = changes.into_iter().map(|change| model.apply(change)).collect();
                store.commit(ops).unwrap();
                model.check(&store);
            }
        }
    }
}
