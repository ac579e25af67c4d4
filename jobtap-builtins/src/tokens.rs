//! Counted tokens: licenses, running jobs, nodes in use.
//!
//! A job takes all of its tokens at once or none, so that no two jobs can hold tokens that the other waits
//! for. The first job that waits for an exhausted token is not overtaken by later ones, as otherwise a large
//! demand would never be met.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use jobtap_core::prelude::*;

/// The scheme of dependencies on licenses.
pub(crate) const LICENSE: &str = "license";

/// Whether a dependency is on a license.
pub(crate) fn is_license(description: &str) -> bool {
    description.strip_prefix(LICENSE).is_some_and(|rest| rest.starts_with('='))
}

/// The number of tokens that a job asks for, by kind.
pub(crate) type Demand<K> = BTreeMap<K, u64>;

/// The place of a job among those that wait: higher urgency first, then the lower id.
pub(crate) type Place = (std::cmp::Reverse<Urgency>, JobId);

/// The tokens in use, and the jobs that hold or wait for tokens.
#[derive(Debug)]
pub(crate) struct Tokens<K> {
    out: HashMap<K, u64>,
    holders: HashMap<JobId, Demand<K>>,
    waiting: HashMap<JobId, (Place, Demand<K>)>,
    /// The waiting jobs by the kinds of their tokens. Only the first job of each line can be admitted next.
    lines: BTreeMap<Vec<K>, BTreeSet<Place>>,
}

impl<K> Default for Tokens<K> {
    fn default() -> Self {
        Self {
            out: HashMap::new(),
            holders: HashMap::new(),
            waiting: HashMap::new(),
            lines: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Tokens<K> {
    /// The number of tokens of a kind that are in use.
    pub(crate) fn out(&self, key: &K) -> u64 {
        self.out.get(key).copied().unwrap_or_default()
    }

    /// All kinds with tokens in use, and their numbers.
    pub(crate) fn all_out(&self) -> impl Iterator<Item = (&K, u64)> {
        self.out.iter().map(|(key, count)| (key, *count))
    }

    /// The tokens that a job holds.
    pub(crate) fn held(&self, job: JobId) -> Option<&Demand<K>> {
        self.holders.get(&job)
    }

    /// Whether a job is waiting.
    pub(crate) fn waits(&self, job: JobId) -> bool {
        self.waiting.contains_key(&job)
    }

    /// Registers the tokens that a job already has, even if they exceed the capacity. They replace the tokens
    /// that it held before.
    pub(crate) fn hold(&mut self, job: JobId, demand: Demand<K>) {
        self.release(job);
        for (key, count) in &demand {
            *self.out.entry(key.clone()).or_default() += count;
        }
        self.holders.insert(job, demand);
    }

    /// Releases the tokens of a job, or removes it from the waiting jobs. Returns whether it was one or the
    /// other.
    pub(crate) fn release(&mut self, job: JobId) -> bool {
        let held = self.holders.remove(&job);
        for (key, count) in held.iter().flatten() {
            if let Some(out) = self.out.get_mut(key) {
                *out = out.saturating_sub(*count);
                if *out == 0 {
                    self.out.remove(key);
                }
            }
        }
        let waited = self.waiting.remove(&job);
        if let Some((place, demand)) = &waited {
            self.leave(*place, demand);
        }
        held.is_some() || waited.is_some()
    }

    /// Adds a job to the waiting jobs.
    pub(crate) fn wait(&mut self, place: Place, demand: Demand<K>) {
        self.release(place.1);
        self.lines.entry(demand.keys().cloned().collect()).or_default().insert(place);
        self.waiting.insert(place.1, (place, demand));
    }

    fn leave(&mut self, place: Place, demand: &Demand<K>) {
        let keys: Vec<K> = demand.keys().cloned().collect();
        if let Some(line) = self.lines.get_mut(&keys) {
            line.remove(&place);
            if line.is_empty() {
                self.lines.remove(&keys);
            }
        }
    }

    /// Gives tokens to waiting jobs and returns the jobs that got theirs, in order. `capacity` is the total
    /// number of tokens of a kind; `None` means no limit.
    pub(crate) fn admit(&mut self, capacity: impl Fn(&K) -> Option<u64>) -> Vec<JobId> {
        let first =
            |(keys, line): (&Vec<K>, &BTreeSet<Place>)| Some((*line.first()?, keys.clone()));
        let mut heads: BTreeSet<(Place, Vec<K>)> = self.lines.iter().filter_map(first).collect();
        let mut short: HashSet<K> = HashSet::new();
        let mut admitted = Vec::new();
        while let Some((place, keys)) = heads.pop_first() {
            let Some((_, demand)) = self.waiting.get(&place.1) else { continue };
            let lacks = |(key, count): &(&K, &u64)| {
                capacity(key)
                    .is_some_and(|capacity| self.out(key).saturating_add(**count) > capacity)
            };
            let lacking: Vec<K> = demand.iter().filter(lacks).map(|(key, _)| key.clone()).collect();
            if !lacking.is_empty() || keys.iter().any(|key| short.contains(key)) {
                short.extend(lacking);
                continue;
            }
            let demand = demand.clone();
            self.hold(place.1, demand);
            admitted.push(place.1);
            if let Some(next) = self.lines.get(&keys).and_then(BTreeSet::first) {
                heads.insert((*next, keys));
            }
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    fn place(id: u64) -> Place {
        (Reverse(Urgency::DEFAULT), JobId::new(id))
    }

    fn demand_for(demand: &[(&'static str, u64)]) -> Demand<&'static str> {
        demand.iter().copied().collect()
    }

    fn ids(admitted: Vec<JobId>) -> Vec<u64> {
        admitted.into_iter().map(JobId::as_u64).collect()
    }

    #[test]
    fn a_large_demand_is_not_overtaken_in_its_line() {
        let mut tokens = Tokens::default();
        tokens.hold(JobId::new(1), demand_for(&[("a", 3)]));
        tokens.wait(place(2), demand_for(&[("a", 4)]));
        tokens.wait(place(3), demand_for(&[("a", 1)]));
        tokens.wait(place(4), demand_for(&[("b", 1)]));
        tokens.wait(place(5), demand_for(&[("a", 1), ("b", 1)]));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [4]);
        tokens.release(JobId::new(1));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [2]);
        tokens.release(JobId::new(2));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [3, 5]);
    }

    #[test]
    fn tokens_are_taken_all_at_once_or_not_at_all() {
        let mut tokens = Tokens::default();
        tokens.hold(JobId::new(1), demand_for(&[("a", 1)]));
        tokens.wait(place(2), demand_for(&[("a", 1), ("b", 1)]));
        assert!(tokens.admit(|_| Some(1)).is_empty());
        assert_eq!(tokens.out(&"b"), 0);
    }

    #[test]
    fn urgent_jobs_go_first() {
        let mut tokens = Tokens::default();
        tokens.wait(place(1), demand_for(&[("a", 1)]));
        tokens.wait((Reverse(Urgency::new(20).unwrap()), JobId::new(2)), demand_for(&[("a", 1)]));
        assert_eq!(ids(tokens.admit(|_| Some(1))), [2]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Wait(u64, Vec<(u8, u64)>),
        Hold(u64, Vec<(u8, u64)>),
        Release(u64),
        Admit,
    }

    fn step() -> impl Strategy<Value = Step> {
        let demand = || prop::collection::vec((0..4u8, 0..4u64), 0..3);
        prop_oneof![
            (0..12u64, demand()).prop_map(|(id, demand)| Step::Wait(id, demand)),
            (0..12u64, demand()).prop_map(|(id, demand)| Step::Hold(id, demand)),
            (0..12u64).prop_map(Step::Release),
            Just(Step::Admit),
        ]
    }

    proptest! {
        /// The counts agree with the holders, admissions stay within the capacity, and after an admission
        /// the first waiting job lacks a token.
        #[test]
        fn counts_agree_with_the_holders(steps in prop::collection::vec(step(), 0..60)) {
            const CAPACITY: u64 = 5;
            let mut tokens: Tokens<u8> = Tokens::default();
            let mut forced = false;
            for step in steps {
                match step {
                    Step::Wait(id, demand) => tokens.wait(place(id), demand.into_iter().collect()),
                    Step::Hold(id, demand) => {
                        forced = true;
                        tokens.hold(JobId::new(id), demand.into_iter().collect());
                    }
                    Step::Release(id) => drop(tokens.release(JobId::new(id))),
                    Step::Admit => {
                        let _ = tokens.admit(|_| Some(CAPACITY));
                        let first = tokens.waiting.values().min_by_key(|(place, _)| *place);
                        if let Some((_, demand)) = first {
                            let lacks = demand.iter().any(|(k, n)| tokens.out(k) + n > CAPACITY);
                            prop_assert!(lacks);
                        }
                    }
                }
                let mut recount: HashMap<u8, u64> = HashMap::new();
                for (key, count) in tokens.holders.values().flatten() {
                    *recount.entry(*key).or_default() += count;
                }
                for key in 0..4u8 {
                    let counted = recount.get(&key).copied().unwrap_or_default();
                    prop_assert_eq!(tokens.out(&key), counted);
                    prop_assert!(forced || counted <= CAPACITY);
                }
                let in_lines: usize = tokens.lines.values().map(BTreeSet::len).sum();
                prop_assert_eq!(in_lines, tokens.waiting.len());
                prop_assert!(tokens.waiting.keys().all(|id| !tokens.holders.contains_key(id)));
            }
        }
    }
}
