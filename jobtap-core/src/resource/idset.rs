//! A set of small integers (ranks, cores, gpus) stored as runs, because the sets of a cluster are
//! almost always a few long runs.

use std::ops::RangeInclusive;

/// A run of consecutive ids; `first <= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Run {
    fn len(self) -> usize {
        (self.last - self.first) as usize + 1
    }
}

/// A set of ids (RFC 22): ranks of a cluster, or the cores or gpus of a node.
///
/// `Display` gives the range form `1-3,7-9`; see also [`Idset::brackets`] and [`Idset::plain`].
/// Parsing is strict: ids ascend, without blanks, empty items or leading zeros, up to
/// [`Idset::MAX_ID`].
///
/// ```
/// use jobtap_core::resource::Idset;
/// let mut free: Idset = "0-3,8".parse()?;
/// assert_eq!(free.len(), 5);
/// assert_eq!(free.take_lowest(2).map(|s| s.to_string()).as_deref(), Some("0-1"));
/// assert_eq!(free.to_string(), "2-3,8");
/// # Ok::<(), jobtap_core::resource::IdsetError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Idset {
    /// Ascending, with a gap between neighbours, so that equal sets are stored equally.
    pub(super) runs: Vec<Run>,
}

impl Idset {
    /// The highest id that the text form can name (RFC 22).
    pub const MAX_ID: u32 = i32::MAX as u32;

    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Whether the set has no id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        let at = self.runs.partition_point(|run| run.last < id);
        self.runs.get(at).is_some_and(|run| run.first <= id)
    }

    /// The lowest id.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.runs.first().map(|run| run.first)
    }

    /// The highest id.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.runs.last().map(|run| run.last)
    }

    /// The lowest id above `id`.
    #[must_use]
    pub fn next_after(&self, id: u32) -> Option<u32> {
        let next = id.checked_add(1)?;
        let at = self.runs.partition_point(|run| run.last < next);
        self.runs.get(at).map(|run| run.first.max(next))
    }

    /// The highest id below `id`.
    #[must_use]
    pub fn prev_before(&self, id: u32) -> Option<u32> {
        let prev = id.checked_sub(1)?;
        let at = self.runs.partition_point(|run| run.first <= prev);
        self.runs.get(at.checked_sub(1)?).map(|run| run.last.min(prev))
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        self.runs.iter().flat_map(|run| run.first..=run.last)
    }

    /// The maximal runs of consecutive ids, in ascending order.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u32>> + Clone + '_ {
        self.runs.iter().map(|run| run.first..=run.last)
    }

    /// Adds `id`; false when it was there already.
    pub fn insert(&mut self, id: u32) -> bool {
        let added = !self.contains(id);
        self.insert_range(id..=id);
        added
    }

    /// Adds every id of `range`; an empty range adds nothing.
    pub fn insert_range(&mut self, range: RangeInclusive<u32>) {
        let (first, last) = range.into_inner();
        if first > last {
            return;
        }
        // Runs that touch the new one are absorbed, as neighbours keep a gap.
        let from = self.runs.partition_point(|run| run.last.saturating_add(1) < first);
        let to = self.runs.partition_point(|run| run.first <= last.saturating_add(1));
        let absorbed = self.runs.get(from..to).unwrap_or_default();
        let merged = Run {
            first: absorbed.first().map_or(first, |run| run.first.min(first)),
            last: absorbed.last().map_or(last, |run| run.last.max(last)),
        };
        self.runs.splice(from..to, [merged]);
    }

    /// Takes `id` out; false when it wasn't there, which is no error.
    pub fn remove(&mut self, id: u32) -> bool {
        let removed = self.contains(id);
        if removed {
            self.remove_range(id..=id);
        }
        removed
    }

    /// Takes every id of `range` out.
    pub fn remove_range(&mut self, range: RangeInclusive<u32>) {
        let (first, last) = range.into_inner();
        if first > last {
            return;
        }
        let from = self.runs.partition_point(|run| run.last < first);
        let to = self.runs.partition_point(|run| run.first <= last);
        let hit = self.runs.get(from..to).unwrap_or_default();
        let below = hit
            .first()
            .filter(|run| run.first < first)
            .map(|run| Run { first: run.first, last: first - 1 });
        let above = hit
            .last()
            .filter(|run| run.last > last)
            .map(|run| Run { first: last + 1, last: run.last });
        self.runs.splice(from..to, below.into_iter().chain(above));
    }

    /// The `n` lowest ids, or all of them if there are fewer.
    #[must_use]
    pub fn lowest(&self, n: usize) -> Self {
        let mut taken = Self::new();
        let mut missing = n;
        for run in &self.runs {
            if missing == 0 {
                break;
            }
            let take = run.len().min(missing);
            missing -= take;
            // `take` is at most the run's length, which fits.
            let extra = u32::try_from(take - 1).unwrap_or(u32::MAX);
            taken.push_run(run.first, run.first.saturating_add(extra));
        }
        taken
    }

    /// Takes the `n` lowest ids out and returns them; with fewer than `n` the set stays as it is
    /// and the answer is `None`, so that an allocator never holds half a slot.
    pub fn take_lowest(&mut self, n: usize) -> Option<Self> {
        let taken = self.lowest(n);
        if taken.len() < n {
            return None;
        }
        if let Some(last) = taken.last() {
            self.remove_range(0..=last);
        }
        Some(taken)
    }

    /// Appends a run that doesn't start below the last one.
    pub(super) fn push_run(&mut self, first: u32, last: u32) {
        match self.runs.last_mut() {
            Some(tail) if first <= tail.last.saturating_add(1) => tail.last = tail.last.max(last),
            _ => self.runs.push(Run { first, last }),
        }
    }
}

impl From<u32> for Idset {
    fn from(id: u32) -> Self {
        Self::from(id..=id)
    }
}

impl From<RangeInclusive<u32>> for Idset {
    fn from(range: RangeInclusive<u32>) -> Self {
        let mut set = Self::new();
        set.insert_range(range);
        set
    }
}

impl FromIterator<u32> for Idset {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl Extend<u32> for Idset {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, ids: I) {
        for id in ids {
            self.insert_range(id..=id);
        }
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
    fn neighbours_join_and_holes_split() {
        let mut ids = Idset::new();
        assert!(ids.insert(5));
        assert!(ids.insert(7));
        assert!(ids.insert(6));
        assert!(!ids.insert(6));
        assert_eq!(ids, set("5-7"));
        assert!(ids.remove(6));
        assert!(!ids.remove(6));
        assert_eq!(ids, set("5,7"));
    }

    #[test]
    fn walks_up_and_down() {
        let ids = set("1-3,9");
        assert_eq!(ids.next_after(3), Some(9));
        assert_eq!(ids.next_after(0), Some(1));
        assert_eq!(ids.next_after(9), None);
        assert_eq!(ids.prev_before(9), Some(3));
        assert_eq!(ids.prev_before(100), Some(9));
        assert_eq!(ids.prev_before(1), None);
        assert_eq!(ids.prev_before(0), None);
        assert_eq!(ids.iter().rev().collect::<Vec<_>>(), [9, 3, 2, 1]);
    }

    #[test]
    fn taking_more_than_there_is_takes_nothing() {
        let mut ids = set("2,4-5");
        assert_eq!(ids.take_lowest(4), None);
        assert_eq!(ids, set("2,4-5"));
        assert_eq!(ids.take_lowest(0), Some(Idset::new()));
        assert_eq!(ids.take_lowest(2), Some(set("2,4")));
        assert_eq!(ids.lowest(9), set("5"));
    }

    #[test]
    fn the_ends_of_u32_are_safe() {
        let mut ids = Idset::from(u32::MAX - 1..=u32::MAX);
        ids.insert(0);
        ids.remove(u32::MAX - 1);
        assert_eq!(ids.iter().collect::<Vec<_>>(), [0, u32::MAX]);
        assert_eq!(ids.next_after(u32::MAX), None);
        ids.insert_range(0..=u32::MAX);
        assert_eq!(ids.runs.len(), 1);
        ids.remove_range(0..=u32::MAX);
        assert!(ids.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Edit {
        Insert(u32, u32),
        Remove(u32, u32),
        Take(usize),
    }

    fn edit() -> impl Strategy<Value = Edit> {
        prop_oneof![
            (0u32..60, 0u32..8).prop_map(|(a, n)| Edit::Insert(a, a + n)),
            (0u32..60, 0u32..8).prop_map(|(a, n)| Edit::Remove(a, a + n)),
            (0usize..6).prop_map(Edit::Take),
        ]
    }

    proptest! {
        #[test]
        fn edits_behave_like_a_set(edits in prop::collection::vec(edit(), 0..40)) {
            let mut ids = Idset::new();
            let mut model = BTreeSet::new();
            for edit in edits {
                match edit {
                    Edit::Insert(a, b) => {
                        ids.insert_range(a..=b);
                        model.extend(a..=b);
                    }
                    Edit::Remove(a, b) => {
                        ids.remove_range(a..=b);
                        model.retain(|id| !(a..=b).contains(id));
                    }
                    Edit::Take(n) => {
                        let taken = ids.take_lowest(n);
                        prop_assert_eq!(taken.is_some(), model.len() >= n);
                        for id in taken.iter().flat_map(Idset::iter) {
                            prop_assert_eq!(model.pop_first(), Some(id));
                        }
                    }
                }
                prop_assert!(ids.iter().eq(model.iter().copied()));
                prop_assert_eq!(ids.len(), model.len());
                prop_assert_eq!(ids.first(), model.first().copied());
                prop_assert_eq!(ids.last(), model.last().copied());
                prop_assert_eq!(&ids, &model.iter().rev().copied().collect::<Idset>());
                for id in 0..70 {
                    prop_assert_eq!(ids.contains(id), model.contains(&id));
                    prop_assert_eq!(ids.next_after(id), model.range(id + 1..).next().copied());
                    prop_assert_eq!(ids.prev_before(id), model.range(..id).next_back().copied());
                }
            }
        }
    }
}
