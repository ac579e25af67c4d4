//! What is known of the nodes besides their ids: hosts and properties.
//!
//! Shared by all subsets of an inventory, so it may know ranks that a subset no longer has. Whoever
//! reads it names the ranks in question.

use super::Idset;
use super::host_map::HostMap;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nodes {
    pub(super) hosts: HostMap,
    /// Property name to the ranks that have it; never an empty set.
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

    /// The ranks that have a property. What follows `@` in a property's name is the scheduler's own
    /// (RFC 20), so `mi50@gpu` gives its ranks `mi50` too.
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

    /// What both know; the host counts that this side knows.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut properties = self.properties.clone();
        for (name, holders) in &other.properties {
            let mine = properties.entry(name.clone()).or_default();
            *mine = mine.union(holders);
        }
        Self { hosts: self.hosts.or(&other.hosts), properties }
    }

    /// As [`HostMap::compacted`].
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
