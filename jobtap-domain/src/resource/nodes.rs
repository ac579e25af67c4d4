//! The hosts and the properties of the ranks of a resource set.
//!
//! All subsets of an inventory share one [`Nodes`], so it may have entries for ranks that a subset no
//! longer has. So its functions take the ranks in question.

use super::host_run::{NameSet, Segment};
use super::{Hostlist, Idset};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nodes {
    pub(super) hosts: HostMap,
    /// The ranks that have a property, by its name. No set is empty.
    pub(super) properties: BTreeMap<String, Idset>,
}

impl Nodes {
    pub(super) fn restricted(&self, ranks: &Idset) -> Self {
        Self { hosts: self.hosts.restricted(ranks), properties: self.properties_of(ranks) }
    }

    pub(super) fn properties_of(&self, ranks: &Idset) -> BTreeMap<String, Idset> {
        self.properties
            .iter()
            .map(|(name, holders)| (name.clone(), holders.intersection(ranks)))
            .filter(|(_, holders)| !holders.is_empty())
            .collect()
    }

    /// The ranks that have a property. The part of a property's name after `@` is for the scheduler
    /// (RFC 20), so ranks with `mi50@gpu` have `mi50` too.
    pub(super) fn holders(&self, name: &str) -> Idset {
        self.named(name).fold(Idset::new(), |ranks, more| ranks.union(more))
    }

    /// Whether a rank is one of the [`holders`](Self::holders).
    pub(super) fn has_property(&self, name: &str, rank: u32) -> bool {
        self.named(name).any(|holders| holders.contains(rank))
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Idset> {
        self.properties
            .range::<str, _>((Bound::Included(name), Bound::Unbounded))
            .map_while(move |(full, holders)| Some((full.strip_prefix(name)?, holders)))
            .filter(|(rest, _)| rest.is_empty() || rest.starts_with('@'))
            .map(|(_, holders)| holders)
    }

    /// The hosts and properties of both; `self` wins where both have a host for a rank.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut properties = self.properties.clone();
        for (name, holders) in &other.properties {
            let mine = properties.entry(name.clone()).or_default();
            *mine = mine.union(holders);
        }
        Self { hosts: self.hosts.or(&other.hosts), properties }
    }

    /// Renumbers `ranks` from 0 in ascending order and drops all other ranks.
    pub(super) fn compacted(&self, ranks: &Idset) -> Self {
        Self {
            hosts: self.hosts.compacted(ranks),
            properties: self
                .properties_of(ranks)
                .into_iter()
                .map(|(name, holders)| (name, holders.compacted(ranks)))
                .collect(),
        }
    }
}

/// Consecutive ranks on hosts with consecutive numbers.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    first: u32,
    last: u32,
    hosts: Segment,
}

impl Span {
    /// The part of the span from rank `first` to rank `last`; this range must overlap the span.
    fn cut(&self, first: u32, last: u32) -> Self {
        let (first, last) = (self.first.max(first), self.last.min(last));
        let skip = u64::from(first - self.first);
        Self { first, last, hosts: self.hosts.slice(skip, u64::from(last - first) + 1) }
    }
}

/// Hosts by rank, as ascending, disjoint, maximal spans. A rank may have no host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostMap {
    spans: Vec<Span>,
}

impl HostMap {
    /// Pairs ranks and hosts in order; surplus ranks or hosts are ignored.
    pub(super) fn zip(ranks: &Idset, hosts: &Hostlist) -> Self {
        let mut map = Self::default();
        let mut ranges = ranks.ranges();
        let mut open = ranges.next();
        for mut segment in hosts.segments() {
            loop {
                let Some((first, last)) = open.take().map(|range| range.into_inner()) else {
                    return map;
                };
                let room = u64::from(last - first) + 1;
                let names = segment.len();
                let taken = room.min(names);
                // `taken` is at most the range's length, which fits.
                let end = u32::try_from(u64::from(first) + taken - 1).unwrap_or(last);
                map.push(first, end, segment.slice(0, taken));
                open = if end < last { Some(end + 1..=last) } else { ranges.next() };
                if taken == names {
                    break;
                }
                segment = segment.slice(taken, names - taken);
            }
        }
        map
    }

    pub(super) fn get(&self, rank: u32) -> Option<String> {
        let span = self.window(rank, rank).first()?.cut(rank, rank);
        span.hosts.run(span.hosts.first, span.hosts.first).nth(0)
    }

    /// The hosts of `ranks`, in the order of ranks.
    pub(super) fn nodelist(&self, ranks: &Idset) -> Hostlist {
        let mut hosts = Hostlist::new();
        for range in ranks.ranges() {
            let (first, last) = range.into_inner();
            for span in self.window(first, last) {
                let names = span.cut(first, last).hosts;
                hosts.push_run(names.run(names.first, names.last));
            }
        }
        hosts
    }

    /// The ranks that are on one of `hosts`.
    pub(super) fn ranks_on(&self, hosts: &Hostlist) -> Idset {
        let wanted = NameSet::new(hosts.segments());
        let mut ranks = Idset::new();
        for span in &self.spans {
            for (from, to) in wanted.overlaps(&span.hosts) {
                let rank_of = |number: u64| {
                    u32::try_from(u64::from(span.first) + (number - span.hosts.first))
                        .unwrap_or(span.last)
                };
                ranks.push_run(rank_of(from), rank_of(to));
            }
        }
        ranks
    }

    pub(super) fn restricted(&self, ranks: &Idset) -> Self {
        let mut kept = Self::default();
        for range in ranks.ranges() {
            let (first, last) = range.into_inner();
            for span in self.window(first, last) {
                let Span { first, last, hosts } = span.cut(first, last);
                kept.push(first, last, hosts);
            }
        }
        kept
    }

    /// The hosts of both maps; `self` wins where both have a host for a rank.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut spans = self.spans.clone();
        spans.extend(other.restricted(&other.ranks().difference(&self.ranks())).spans);
        spans.sort_by_key(|span| span.first);
        let mut both = Self::default();
        for Span { first, last, hosts } in spans {
            both.push(first, last, hosts);
        }
        both
    }

    /// The ranks that have different hosts in the two maps.
    pub(super) fn conflicts(&self, other: &Self) -> Idset {
        let mut ranks = Idset::new();
        for span in &self.spans {
            for theirs in other.window(span.first, span.last) {
                let theirs = theirs.cut(span.first, span.last);
                if span.cut(theirs.first, theirs.last) != theirs {
                    ranks.push_run(theirs.first, theirs.last);
                }
            }
        }
        ranks
    }

    /// Renumbers `ranks` from 0 in ascending order and drops all other ranks.
    pub(super) fn compacted(&self, ranks: &Idset) -> Self {
        let mut map = Self::default();
        let mut base = 0;
        for range in ranks.ranges() {
            let (start, end) = range.into_inner();
            for span in self.window(start, end) {
                let Span { first, last, hosts } = span.cut(start, end);
                map.push(base + (first - start), base + (last - start), hosts);
            }
            base += (end - start).saturating_add(1);
        }
        map
    }

    fn ranks(&self) -> Idset {
        let mut ranks = Idset::new();
        for span in &self.spans {
            ranks.push_run(span.first, span.last);
        }
        ranks
    }

    fn window(&self, first: u32, last: u32) -> &[Span] {
        let from = self.spans.partition_point(|span| span.last < first);
        let to = self.spans.partition_point(|span| span.first <= last);
        self.spans.get(from..to).unwrap_or_default()
    }

    fn push(&mut self, first: u32, last: u32, hosts: Segment) {
        match self.spans.last_mut() {
            Some(tail)
                if tail.last.checked_add(1) == Some(first) && tail.hosts.precedes(&hosts) =>
            {
                tail.last = last;
                tail.hosts.last = hosts.last;
            }
            _ => self.spans.push(Span { first, last, hosts }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn map(ranks: &str, hosts: &str) -> HostMap {
        HostMap::zip(&ranks.parse().unwrap(), &hosts.parse().unwrap())
    }

    #[test]
    fn hosts_follow_the_order_of_ranks() {
        let hosts = map("0-1,5-7,9", "n[9-11],login,n[3-4]");
        let got: Vec<_> = (0..10).map(|rank| hosts.get(rank)).collect();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(got[0], some("n9"));
        assert_eq!(got[1], some("n10"));
        assert_eq!(got[2], None);
        assert_eq!(got[5..8], [some("n11"), some("login"), some("n3")]);
        assert_eq!(got[9], some("n4"));
        assert_eq!(hosts.ranks_on(&"n[4-10]".parse().unwrap()).to_string(), "0-1,9");
    }

    fn hosts() -> impl Strategy<Value = BTreeMap<u32, String>> {
        let name = (prop::sample::select(vec!["a", "b", ""]), 0u32..14)
            .prop_map(|(prefix, n)| format!("{prefix}{n}"));
        prop::collection::btree_map(0u32..30, name, 0..20)
    }

    fn host_map(model: &BTreeMap<u32, String>) -> HostMap {
        let mut list = Hostlist::new();
        for name in model.values() {
            list.push(name).unwrap();
        }
        HostMap::zip(&model.keys().copied().collect(), &list)
    }

    proptest! {
        #[test]
        fn agrees_with_a_btree_map(a in hosts(), b in hosts(), ranks in prop::collection::btree_set(0u32..30, 0..20)) {
            let (x, y) = (host_map(&a), host_map(&b));
            for rank in 0..32 {
                prop_assert_eq!(x.get(rank), a.get(&rank).cloned());
            }
            let mut both = b.clone();
            both.extend(a.clone());
            prop_assert_eq!(x.or(&y), host_map(&both));
            let differ = |rank: &u32| b.get(rank).is_some_and(|name| *name != a[rank]);
            prop_assert_eq!(x.conflicts(&y), a.keys().copied().filter(differ).collect());
            let kept: BTreeMap<_, _> = a.clone().into_iter().filter(|(r, _)| ranks.contains(r)).collect();
            let ids = ranks.iter().copied().collect();
            prop_assert_eq!(x.restricted(&ids), host_map(&kept));
            prop_assert!(x.nodelist(&ids).iter().eq(kept.values().cloned()));
            let renumbered = ranks.iter().enumerate().filter_map(|(new, old)| {
                Some((u32::try_from(new).unwrap(), a.get(old)?.clone()))
            });
            prop_assert_eq!(x.compacted(&ids), host_map(&renumbered.collect()));
            let wanted: std::collections::BTreeSet<_> = b.values().collect();
            let on = a.iter().filter(|(_, name)| wanted.contains(name)).map(|(rank, _)| *rank);
            prop_assert_eq!(x.ranks_on(&y.nodelist(&(0..=40).into())), on.collect());
        }
    }
}
