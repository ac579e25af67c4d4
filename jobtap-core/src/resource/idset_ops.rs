//! The algebra of idsets, linear in the number of runs.

use super::Idset;
use super::idset::Run;

impl Idset {
    /// The ids of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut merged = Self::new();
        let (mut left, mut right) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        loop {
            let run = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.first <= b.first => left.next(),
                (Some(_), None) => left.next(),
                _ => right.next(),
            };
            match run {
                Some(run) => merged.push_run(run.first, run.last),
                None => return merged,
            }
        }
    }

    /// The ids of this set that aren't in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut kept = Self::new();
        let mut holes = other.runs_from(self.first()).iter().peekable();
        for run in &self.runs {
            let mut rest = Some(run.first);
            while let (Some(first), Some(hole)) = (rest, holes.peek()) {
                if hole.first > run.last {
                    break;
                }
                if hole.first > first {
                    kept.push_run(first, hole.first - 1);
                }
                if hole.last >= run.last {
                    // The hole may reach into the next run: keep it.
                    rest = None;
                } else {
                    rest = Some(first.max(hole.last + 1));
                    holes.next();
                }
            }
            if let Some(first) = rest {
                kept.push_run(first, run.last);
            }
        }
        kept
    }

    /// The ids that both sets have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Self::new();
        self.each_overlap(other, |first, last| {
            common.push_run(first, last);
            true
        });
        common
    }

    /// Whether the sets have an id in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let mut found = false;
        self.each_overlap(other, |_, _| {
            found = true;
            false
        });
        found
    }

    /// Whether every id of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        // Runs of `other` keep a gap, so each run here must lie inside a single one there.
        let mut outer = other.runs_from(self.first()).iter().peekable();
        self.runs.iter().all(|run| {
            while outer.next_if(|o| o.last < run.first).is_some() {}
            outer.peek().is_some_and(|o| o.first <= run.first && run.last <= o.last)
        })
    }

    /// Numbers the ids of `ids` anew from 0 in ascending order and returns the new numbers of those
    /// that are in this set.
    pub(super) fn compacted(&self, ids: &Self) -> Self {
        let mut renumbered = Self::new();
        let mut base = 0;
        for run in &ids.runs {
            let common = self.runs_from(Some(run.first));
            for hit in common.iter().take_while(|hit| hit.first <= run.last) {
                let (first, last) = (hit.first.max(run.first), hit.last.min(run.last));
                renumbered.push_run(base + (first - run.first), base + (last - run.first));
            }
            base += (run.last - run.first).saturating_add(1);
        }
        renumbered
    }

    /// Calls `visit` with the common runs in ascending order, until it answers false.
    fn each_overlap(&self, other: &Self, mut visit: impl FnMut(u32, u32) -> bool) {
        let mut left = self.runs_from(other.first()).iter().peekable();
        let mut right = other.runs_from(self.first()).iter().peekable();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let (first, last) = (a.first.max(b.first), a.last.min(b.last));
            if first <= last && !visit(first, last) {
                return;
            }
            if a.last <= b.last {
                left.next();
            } else {
                right.next();
            }
        }
    }

    /// The runs that don't end below `id`: lets a small set meet a large one without walking it.
    fn runs_from(&self, id: Option<u32>) -> &[Run] {
        let id = id.unwrap_or_default();
        let from = self.runs.partition_point(|run| run.last < id);
        self.runs.get(from..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> Idset {
        text.parse().unwrap()
    }

    #[test]
    fn rfc_vectors() {
        assert_eq!(set("0").union(&set("1")), set("0-1"));
        assert_eq!(set("0-1").difference(&set("0")), set("1"));
        assert_eq!(set("0-1").intersection(&set("1-2")), set("1"));
        assert_eq!(set("0-1").intersection(&set("2-3")), set(""));
        assert!(!set("0-1").intersects(&set("2-3")));
    }

    #[test]
    fn one_hole_may_span_several_runs() {
        assert_eq!(set("0-3,5-9,11").difference(&set("2-6,9-20")), set("0-1,7-8"));
        let all = Idset::from(0..=u32::MAX);
        assert_eq!(all.difference(&Idset::from(u32::MAX)).last(), Some(u32::MAX - 1));
        assert!(all.difference(&all).is_empty());
    }

    fn ids() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0u32..40, 0..30)
    }

    proptest! {
        #[test]
        fn agrees_with_the_textbook(a in ids(), b in ids()) {
            let (x, y): (Idset, Idset) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(x.union(&y), a.union(&b).copied().collect());
            prop_assert_eq!(x.difference(&y), a.difference(&b).copied().collect());
            prop_assert_eq!(x.intersection(&y), a.intersection(&b).copied().collect());
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.difference(&y).union(&x.intersection(&y)), x.clone());
            prop_assert!(x.intersection(&y).is_subset(&y));
            let renumbered = b.iter().enumerate().filter(|(_, id)| a.contains(id));
            let renumbered = renumbered.map(|(new, _)| u32::try_from(new).unwrap());
            prop_assert_eq!(x.compacted(&y), renumbered.collect());
        }
    }
}
