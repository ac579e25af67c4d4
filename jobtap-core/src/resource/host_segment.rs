//! Host names of one prefix and one length, as an interval of numbers. Within it the order of names
//! is the order of numbers, which makes sorting, deleting and matching interval arithmetic.

use super::host_run::{HostRun, Numbers};
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Whether both have names of the same prefix and length.
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

    /// Whether `next` goes on where this segment ends.
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

/// Sorts segments and keeps duplicates: a name that occurs twice is given twice, side by side.
/// Calls `push` with the runs in order.
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

/// Gives overlapping segments number by number where more than one covers it.
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
