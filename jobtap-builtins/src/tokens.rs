//! Who may have how much of what is counted: licences, running jobs, nodes in use.
//!
//! A job takes all that it asks for at once or nothing, so two jobs never hold what the other waits
//! for. Who is first in line for something that is short is not overtaken by who comes later, or a
//! large demand would wait for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use jobtap_core::prelude::*;

/// The scheme of the dependencies by which jobs wait for licences.
pub(crate) const LICENSE: &str = "license";

/// Whether it is a licence that a job waits for by this dependency.
pub(crate) fn is_license(description: &str) -> bool {
    description.strip_prefix(LICENSE).is_some_and(|rest| rest.starts_with('='))
}

/// What a job asks for, by what is counted.
pub(crate) type Demand<K> = BTreeMap<K, u64>;

/// A job's place in line: higher urgency first, then the older.
pub(crate) type Place = (std::cmp::Reverse<Urgency>, JobId);

/// What is out, and who waits.
#[derive(Debug)]
pub(crate) struct Tokens<K> {
    out: HashMap<K, u64>,
    holders: HashMap<JobId, Demand<K>>,
    waiting: HashMap<JobId, (Place, Demand<K>)>,
    /// Those who wait, by what they ask for: only the first of each line can be next.
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
    /// How much of something is out.
    pub(crate) fn out(&self, key: &K) -> u64 {
        self.out.get(key).copied().unwrap_or_default()
    }

    /// Everything that is out.
    pub(crate) fn all_out(&self) -> impl Iterator<Item = (&K, u64)> {
        self.out.iter().map(|(key, count)| (key, *count))
    }

    /// What a job holds.
    pub(crate) fn held(&self, job: JobId) -> Option<&Demand<K>> {
        self.holders.get(&job)
    }

    /// Whether a job is in line.
    pub(crate) fn waits(&self, job: JobId) -> bool {
        self.waiting.contains_key(&job)
    }

    /// Gives a job this, whatever is left: it has it already. What it held before is given back.
    pub(crate) fn hold(&mut self, job: JobId, demand: Demand<K>) {
        self.release(job);
        for (key, count) in &demand {
            *self.out.entry(key.clone()).or_default() += count;
        }
        self.holders.insert(job, demand);
    }

    /// Takes back what a job holds, or takes it out of the line; says whether it was in either.
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

    /// Puts a job in line.
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

    /// Gives those in line what there is; `capacity` says of how much, none being no end. Those who
    /// got what they asked for, in their order.
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

    fn of(demand: &[(&'static str, u64)]) -> Demand<&'static str> {
        demand.iter().copied().collect()
    }

    fn ids(admitted: Vec<JobId>) -> Vec<u64> {
        admitted.into_iter().map(JobId::as_u64).collect()
    }

    #[test]
    fn a_large_demand_is_not_overtaken_but_other_lines_go_on() {
        let mut tokens = Tokens::default();
        tokens.hold(JobId::new(1), of(&[("a", 3)]));
        tokens.wait(place(2), of(&[("a", 4)]));
        tokens.wait(place(3), of(&[("a", 1)]));
        tokens.wait(place(4), of(&[("b", 1)]));
        tokens.wait(place(5), of(&[("a", 1), ("b", 1)]));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [4]);
        tokens.release(JobId::new(1));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [2]);
        tokens.release(JobId::new(2));
        assert_eq!(ids(tokens.admit(|_| Some(4))), [3, 5]);
    }

    #[test]
    fn all_is_taken_at_once_or_nothing() {
        let mut tokens = Tokens::default();
        tokens.hold(JobId::new(1), of(&[("a", 1)]));
        tokens.wait(place(2), of(&[("a", 1), ("b", 1)]));
        assert!(tokens.admit(|_| Some(1)).is_empty());
        assert_eq!(tokens.out(&"b"), 0);
    }

    #[test]
    fn urgent_jobs_go_first() {
        let mut tokens = Tokens::default();
        tokens.wait(place(1), of(&[("a", 1)]));
        tokens.wait((Reverse(Urgency::new(20).unwrap()), JobId::new(2)), of(&[("a", 1)]));
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
        /// What is out is what the holders have; nobody is admitted beyond what there is; after an
        /// admission the first in line lacks something.
        #[test]
        fn counts_are_a_recount(steps in prop::collection::vec(step(), 0..60)) {
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
