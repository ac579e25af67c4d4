//! Runs of consecutive host names, such as `node[08-11]`: the parts of a hostlist.
//!
//! A name is split in exactly one way, into a prefix and all of its trailing digits. So equal lists
//! have equal runs, however they were written, and a lookup compares names, not spellings.
//!
//! A [`HostRun`] may span names of several lengths (`n8` to `n120`). A [`Segment`] has names of one
//! length only. Within it the order of names is the order of numbers, which makes sorting, deleting
//! and matching interval arithmetic.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of trailing digits that are read as a number. A name with more is stored as a
/// prefix only and never joins a range, so that arithmetic on numbers cannot overflow a `u64`.
pub(super) const MAX_DIGITS: usize = 18;

/// One name without a number, or names with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostRun {
    pub(super) prefix: Arc<str>,
    pub(super) numbers: Option<Numbers>,
}

/// The numbers of a run, `first <= last`, each written with at least `width` digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Number of digits with which the first number is written.
    pub(super) width: usize,
}

/// The number of decimal digits of `number`.
pub(super) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The name without its trailing digits, and these digits.
pub(super) fn split_digits(name: &str) -> (&str, &str) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.split_at(prefix.len())
}

impl HostRun {
    pub(super) fn of_name(name: &str) -> Self {
        let (prefix, number) = split_digits(name);
        let parsed = (number.len() <= MAX_DIGITS).then(|| number.parse::<u64>().ok()).flatten();
        match parsed {
            Some(value) => Self {
                prefix: prefix.into(),
                numbers: Some(Numbers { first: value, last: value, width: number.len() }),
            },
            None => Self { prefix: name.into(), numbers: None },
        }
    }

    /// Number of hosts.
    pub(super) fn len(&self) -> usize {
        self.numbers.map_or(1, Numbers::len)
    }

    pub(super) fn nth(&self, index: usize) -> Option<String> {
        match self.numbers {
            None => (index == 0).then(|| self.prefix.to_string()),
            Some(Numbers { first, last, width }) => {
                let value = first.checked_add(index as u64).filter(|v| *v <= last)?;
                Some(format!("{}{value:0width$}", self.prefix))
            }
        }
    }

    /// Appends `next` when its first name follows this run's last one in number and in width.
    pub(super) fn try_extend(&mut self, next: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (self.numbers.as_mut(), next.numbers) else {
            return false;
        };
        let follows = self.prefix == next.prefix
            && theirs.first == mine.last + 1
            && theirs.width == mine.width.max(digits(theirs.first));
        if follows {
            mine.last = theirs.last;
        }
        follows
    }

    /// The index of `name`, which must be a single name, in this run.
    pub(super) fn position(&self, name: &Self) -> Option<usize> {
        if self.prefix != name.prefix {
            return None;
        }
        match (self.numbers, name.numbers) {
            (None, None) => Some(0),
            (Some(mine), Some(n)) => {
                let inside = (mine.first..=mine.last).contains(&n.first)
                    && n.width == mine.width.max(digits(n.first));
                inside.then(|| usize::try_from(n.first - mine.first).ok()).flatten()
            }
            _ => None,
        }
    }

    /// The run, split where its numbers gain a digit.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let mut next = Some(self.numbers.map_or(0, |n| n.first));
        std::iter::from_fn(move || {
            let first = next?;
            let Some(numbers) = self.numbers else {
                next = None;
                return Some(Segment::bare(self.prefix.clone()));
            };
            let width = numbers.width.max(digits(first));
            let last = numbers.last.min(last_of_width(width));
            next = (last < numbers.last).then(|| last + 1);
            Some(Segment { prefix: self.prefix.clone(), width, first, last })
        })
    }
}

/// The highest number of `width` digits.
pub(super) fn last_of_width(width: usize) -> u64 {
    u32::try_from(width)
        .ok()
        .and_then(|width| 10u64.checked_pow(width))
        .map_or(u64::MAX, |power| power - 1)
}

impl Numbers {
    fn len(self) -> usize {
        usize::try_from(self.last - self.first).unwrap_or(usize::MAX).saturating_add(1)
    }
}

/// Consecutive names whose numbers have the same text length. The derived order is the sort order
/// of RFC 29: prefix, then bare names, then shorter numbers, then the number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Segment {
    pub(super) prefix: Arc<str>,
    /// Length of each number's text; 0 for a name without a number.
    pub(super) width: usize,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Segment {
    /// A name without a number.
    pub(super) fn bare(prefix: Arc<str>) -> Self {
        Self { prefix, width: 0, first: 0, last: 0 }
    }

    /// The names numbered `first` to `last` as a run.
    pub(super) fn run(&self, first: u64, last: u64) -> HostRun {
        HostRun {
            prefix: self.prefix.clone(),
            numbers: (self.width > 0).then_some(Numbers { first, last, width: self.width }),
        }
    }

    /// Number of names.
    pub(super) fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether both have the same prefix and names of the same length.
    pub(super) fn comparable(&self, other: &Self) -> bool {
        self.width == other.width && self.prefix == other.prefix
    }

    /// The segment without its first `skip` names, cut to `len` names.
    pub(super) fn slice(&self, skip: u64, len: u64) -> Self {
        let first = self.first + skip;
        Self {
            prefix: self.prefix.clone(),
            width: self.width,
            first,
            last: first + len.saturating_sub(1),
        }
    }

    /// Whether `next` starts with the number after the last one of this segment.
    pub(super) fn precedes(&self, next: &Self) -> bool {
        self.width > 0 && self.comparable(next) && self.last + 1 == next.first
    }
}

/// A set of host names: sorted, disjoint segments.
pub(super) struct NameSet {
    segments: Vec<Segment>,
}

impl NameSet {
    pub(super) fn new(mut segments: Vec<Segment>) -> Self {
        segments.sort_unstable();
        segments.dedup_by(|next, kept| {
            let joins = kept.comparable(next) && next.first <= kept.last;
            if joins {
                kept.last = kept.last.max(next.last);
            }
            joins
        });
        Self { segments }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The parts of `segment` that are in the set, as ascending pairs of first and last number.
    pub(super) fn overlaps<'a>(
        &'a self,
        segment: &'a Segment,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        let from = self.segments.partition_point(|s| {
            (&s.prefix, s.width, s.last) < (&segment.prefix, segment.width, segment.first)
        });
        self.segments
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|s| s.comparable(segment) && s.first <= segment.last)
            .map(|s| (s.first.max(segment.first), s.last.min(segment.last)))
    }
}

/// Sorts segments and calls `push` with the resulting runs in order. Duplicates stay: a name that
/// occurs twice is pushed twice in a row.
pub(super) fn sorted_runs(mut segments: Vec<Segment>, mut push: impl FnMut(HostRun)) {
    segments.sort_unstable();
    let mut rest = segments.as_slice();
    while let Some(head) = rest.first() {
        let mut last = head.last;
        let overlapping = rest
            .iter()
            .take_while(|s| {
                let joins = s.comparable(head) && s.first <= last;
                last = last.max(s.last);
                joins
            })
            .count();
        let (cluster, tail) = rest.split_at(overlapping.max(1));
        if overlapping > 1 {
            push_overlapping(cluster, head, &mut push);
        } else {
            push(head.run(head.first, head.last));
        }
        rest = tail;
    }
}

/// Pushes overlapping segments: as a run where one segment covers the numbers, and number by number
/// where several do.
fn push_overlapping(cluster: &[Segment], model: &Segment, push: &mut impl FnMut(HostRun)) {
    let mut starts: BTreeMap<u64, i64> = BTreeMap::new();
    for segment in cluster {
        *starts.entry(segment.first).or_default() += 1;
        *starts.entry(segment.last + 1).or_default() -= 1;
    }
    let mut cuts = starts.into_iter().peekable();
    let mut copies = 0;
    while let (Some((first, change)), Some((end, _))) = (cuts.next(), cuts.peek()) {
        copies += change;
        if copies == 1 {
            push(model.run(first, end - 1));
            continue;
        }
        for number in first..*end {
            for _ in 0..copies {
                push(model.run(number, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joins(left: &str, right: &str) -> bool {
        HostRun::of_name(left).try_extend(&HostRun::of_name(right))
    }

    #[test]
    fn neighbours_join_when_one_width_writes_both() {
        for (left, right) in [("foo9", "foo10"), ("foo999", "foo1000"), ("foo09", "foo10")] {
            assert!(joins(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("foo009", "foo10"),
            ("foo01", "foo1"),
            ("foo01", "foo2"),
            ("foo1", "foo02"),
            ("foo1", "bar2"),
            ("foo", "foo1"),
            ("foo1", "foo3"),
        ] {
            assert!(!joins(left, right), "{left} {right}");
        }
    }

    #[test]
    fn a_long_digit_string_stays_a_plain_name() {
        let long = "n1234567890123456789";
        let run = HostRun::of_name(long);
        assert_eq!(run.numbers, None);
        assert_eq!(run.nth(0).unwrap(), long);
        assert!(!joins("n999999999999999999", "n1000000000000000000"));
    }

    #[test]
    fn segments_have_one_width_each() {
        let mut run = HostRun::of_name("n8");
        for n in 9..=120 {
            assert!(run.try_extend(&HostRun::of_name(&format!("n{n}"))));
        }
        let cut: Vec<_> = run.segments().map(|s| (s.width, s.first, s.last)).collect();
        assert_eq!(cut, [(1, 8, 9), (2, 10, 99), (3, 100, 120)]);
        assert_eq!(run.len(), 113);
        assert_eq!(run.nth(2).unwrap(), "n10");
        assert_eq!(run.nth(113), None);
    }
}
