//! A set of small integers (ranks, cores, gpus), its algebra and its text forms (RFC 22).
//!
//! Ids are stored as runs, because the sets of a cluster are almost always a few long runs. Every
//! operation is linear in the number of runs at most, never in the number of ids.

use super::{IdsetError, splice};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A run of consecutive ids; `first <= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    first: u32,
    last: u32,
}

impl Run {
    fn len(self) -> usize {
        (self.last - self.first) as usize + 1
    }
}

/// A set of ids (RFC 22): ranks of a cluster, or the cores or gpus of a node.
///
/// `Display` writes the range form `1-3,7-9`; see also [`Idset::brackets`] and [`Idset::plain`]. Parsing is strict: ids
/// must ascend, up to [`Idset::MAX_ID`], without blanks, empty items or leading zeros. Flux accepts empty items and
/// wraps large ids; both hide mistakes that would select the wrong nodes.
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
    /// Ascending, with a gap between neighbors, so that equal sets have equal runs. Most sets have one or two, which
    /// are stored inline, in the space of the pointer and the lengths of a longer list.
    runs: SmallVec<[Run; 2]>,
}

impl Idset {
    /// The highest id that the text form can name (RFC 22).
    pub const MAX_ID: u32 = i32::MAX as u32;

    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: SmallVec::new_const() }
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

    /// Adds `id`. Returns false if the set had it already.
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
        // Runs that touch the new one are merged into it, since runs must keep a gap.
        let from = self.runs.partition_point(|run| run.last.saturating_add(1) < first);
        let to = self.runs.partition_point(|run| run.first <= last.saturating_add(1));
        let absorbed = self.runs.get(from..to).unwrap_or_default();
        let merged = Run {
            first: absorbed.first().map_or(first, |run| run.first.min(first)),
            last: absorbed.last().map_or(last, |run| run.last.max(last)),
        };
        splice(&mut self.runs, from..to, [merged]);
    }

    /// Removes `id`. Returns false if the set didn't have it.
    pub fn remove(&mut self, id: u32) -> bool {
        let removed = self.contains(id);
        if removed {
            self.remove_range(id..=id);
        }
        removed
    }

    /// Removes every id of `range`.
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
        splice(&mut self.runs, from..to, below.into_iter().chain(above));
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

    /// Removes the `n` lowest ids and returns them. If there are fewer than `n`, the set stays as it is
    /// and the result is `None`, so that an allocator never gets half a slot.
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

    /// Appends a run, which must not start below the last one.
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
        let (first, last) = range.into_inner();
        let mut set = Self::new();
        if first <= last {
            set.push_run(first, last);
        }
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
                    // The hole may reach into the next run, so it is not consumed yet.
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
        // Runs of `other` keep a gap, so each run of `self` must lie inside a single run of `other`.
        let mut outer = other.runs_from(self.first()).iter().peekable();
        self.runs.iter().all(|run| {
            while outer.next_if(|o| o.last < run.first).is_some() {}
            outer.peek().is_some_and(|o| o.first <= run.first && run.last <= o.last)
        })
    }

    /// Renumbers `ids` from 0 in ascending order and returns the new numbers of the ids that are in
    /// this set.
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

    /// Calls `visit` with the common runs in ascending order, until it returns false.
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

    /// The runs that don't end below `id`, so that a small set can be combined with a large one
    /// without walking all of the large one.
    fn runs_from(&self, id: Option<u32>) -> &[Run] {
        let id = id.unwrap_or_default();
        let from = self.runs.partition_point(|run| run.last < id);
        self.runs.get(from..).unwrap_or_default()
    }
}

impl Idset {
    /// The range form, in brackets if the set has more than one id: `[1-3,7]`, but `2`. The form of
    /// the empty set is the empty string.
    #[must_use]
    pub fn brackets(&self) -> String {
        let mut text = String::new();
        self.push_brackets_to(&mut text);
        text
    }

    /// The ids without ranges: `7,8,9`. The length of the text grows with the number of ids.
    #[must_use]
    pub fn plain(&self) -> String {
        let ids: Vec<String> = self.iter().map(|id| id.to_string()).collect();
        ids.join(",")
    }
}

impl Idset {
    /// Passes the range form to `add` piece by piece. Each job's R has a few idsets, and writing their numbers with
    /// `write!` takes several times as long.
    pub(super) fn pieces(&self, mut add: impl FnMut(&str)) {
        let mut digits = itoa::Buffer::new();
        for (i, run) in self.runs.iter().enumerate() {
            if i > 0 {
                add(",");
            }
            add(digits.format(run.first));
            if run.first < run.last {
                add("-");
                add(digits.format(run.last));
            }
        }
    }

    /// Appends the range form to a text.
    pub(super) fn push_to(&self, text: &mut String) {
        self.pieces(|piece| text.push_str(piece));
    }

    /// Appends the form of [`brackets`](Self::brackets) to a text.
    pub(super) fn push_brackets_to(&self, text: &mut String) {
        if self.first() == self.last() {
            return self.push_to(text);
        }
        text.push('[');
        self.push_to(text);
        text.push(']');
    }
}

impl fmt::Display for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idset({self})")
    }
}

impl FromStr for Idset {
    type Err = IdsetError;

    fn from_str(text: &str) -> Result<Self, IdsetError> {
        let list = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(IdsetError::Brackets)?,
            None => text,
        };
        if list.contains(['[', ']']) {
            return Err(IdsetError::Brackets);
        }
        let mut set = Self::new();
        if list.is_empty() {
            return Ok(set);
        }
        for item in list.split(',') {
            let (first, last) = parse_item(item)?;
            if set.last().is_some_and(|highest| first <= highest) {
                return Err(IdsetError::Order(item.to_owned()));
            }
            set.push_run(first, last);
        }
        Ok(set)
    }
}

fn parse_item(item: &str) -> Result<(u32, u32), IdsetError> {
    let Some((low, high)) = item.split_once('-') else {
        let id = parse_id(item, item)?;
        return Ok((id, id));
    };
    let (first, last) = (parse_id(low, item)?, parse_id(high, item)?);
    if first < last { Ok((first, last)) } else { Err(IdsetError::Order(item.to_owned())) }
}

fn parse_id(digits: &str, item: &str) -> Result<u32, IdsetError> {
    let well_formed = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !well_formed {
        return Err(IdsetError::Item(item.to_owned()));
    }
    match digits.parse() {
        Ok(id) if id <= Idset::MAX_ID => Ok(id),
        _ => Err(IdsetError::TooLarge),
    }
}

impl Serialize for Idset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Idset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
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
    fn finds_the_next_and_the_previous_id() {
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
    fn take_lowest_of_too_few_ids_takes_nothing() {
        let mut ids = set("2,4-5");
        assert_eq!(ids.take_lowest(4), None);
        assert_eq!(ids, set("2,4-5"));
        assert_eq!(ids.take_lowest(0), Some(Idset::new()));
        assert_eq!(ids.take_lowest(2), Some(set("2,4")));
        assert_eq!(ids.lowest(9), set("5"));
    }

    #[test]
    fn the_ends_of_u32_do_not_overflow() {
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
        fn edits_agree_with_a_btree_set(edits in prop::collection::vec(edit(), 0..40)) {
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

    #[test]
    fn algebra_of_the_examples_of_the_rfc() {
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
        fn algebra_agrees_with_btree_sets(a in ids(), b in ids()) {
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

    #[test]
    fn canonical_forms() {
        for (text, canonical, len) in [
            ("", "", 0),
            ("[]", "", 0),
            ("2", "2", 1),
            ("[2]", "2", 1),
            ("2,3,4,5", "2-5", 4),
            ("7-9", "7-9", 3),
            ("[7-9]", "7-9", 3),
            ("1,7-9,16", "1,7-9,16", 5),
            ("1-3,7-9,14,16,18-19", "1-3,7-9,14,16,18-19", 10),
            ("2,1024", "2,1024", 2),
            ("1,2-1024", "1-1024", 1024),
            ("1048576", "1048576", 1),
            ("0-2147483647", "0-2147483647", 1 << 31),
        ] {
            let ids = set(text);
            assert_eq!(ids.to_string(), canonical, "{text}");
            assert_eq!(ids.len(), len, "{text}");
        }
        assert_eq!(set("1,7-9,16").first(), Some(1));
        assert_eq!(set("1,7-9,16").last(), Some(16));
    }

    #[test]
    fn bracketed_and_plain_forms() {
        assert_eq!(set("").brackets(), "");
        assert_eq!(set("2").brackets(), "2");
        assert_eq!(set("2-3").brackets(), "[2-3]");
        assert_eq!(set("7-9").plain(), "7,8,9");
        assert_eq!(format!("{:?}", set("7-9")), "Idset(7-9)");
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "4.2", "x", "01,2", "00", "3,2", "3-0", "5,1-3", "1-2,2-3", "2-2", "2,2,2,2", "0-",
            "-5", "+1", "[0-]", "[-5]", "[0 0]", "[[0]]", "[[0,2]", "[0,2]]", "[0,2", "0,2]",
            "0,[2", "0]2", "1-2x", " 1", "1 ", "1, 2", "1,,2", ",1", "1,", ",", "[,]", "[", "]",
            "1-2-3", "٣",
        ] {
            assert!(text.parse::<Idset>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn errors_name_the_item() {
        let message = |text: &str| text.parse::<Idset>().unwrap_err().to_string();
        assert_eq!(message("1,x-y"), "error parsing range 'x-y'");
        assert_eq!(message("1,,2"), "error parsing range ''");
        assert_eq!(message("5,1-3"), "range '1-3' is out of order");
        assert_eq!(message("[0,2"), "mismatched or nested brackets");
        for large in ["2147483648", "4294967296", "99999999999999999999999"] {
            assert_eq!(large.parse::<Idset>(), Err(IdsetError::TooLarge));
        }
        assert_eq!(message("2147483648"), "set universe size would exceed maximum");
    }

    #[test]
    fn serializes_as_a_json_string() {
        let ids: Idset = serde_json::from_str("\"[0-3,9]\"").unwrap();
        assert_eq!(serde_json::to_string(&ids).unwrap(), "\"0-3,9\"");
        assert!(serde_json::from_str::<Idset>("\"3-1\"").is_err());
    }

    proptest! {
        #[test]
        fn every_text_form_round_trips(ids in prop::collection::btree_set(0u32..200, 0..60)) {
            let ids: Idset = ids.into_iter().collect();
            prop_assert_eq!(&set(&ids.to_string()), &ids);
            prop_assert_eq!(&set(&ids.brackets()), &ids);
            prop_assert_eq!(&set(&ids.plain()), &ids);
        }

        #[test]
        fn accepted_text_has_one_canonical_form(text in "\\PC*|[0-9,\\[\\]-]{0,24}") {
            if let Ok(ids) = text.parse::<Idset>() {
                prop_assert_eq!(set(&ids.to_string()), ids);
            }
        }
    }
}
