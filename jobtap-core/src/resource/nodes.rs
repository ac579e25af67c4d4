//! What is known of the nodes besides their ids: hosts and properties.
//!
//! Shared by all subsets of an inventory, so it may know ranks that a subset no longer has. Whoever
//! reads it names the ranks in question.

use super::Idset;
use super::host_map::HostMap;
use std::collections::BTreeMap;

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
