//! Resource sets for this module's tests: from summary text, and as a model of single ids.

use super::{Children, Hostlist, Idset, ResourceSet};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Reads the form of [`ResourceSet::summary`].
pub(super) fn r(summary: &str) -> ResourceSet {
    let mut set = ResourceSet::new();
    for entry in summary.split_whitespace() {
        let (ranks, kinds) = entry.split_once('/').unwrap();
        let ranks: Idset = ranks.strip_prefix("rank").unwrap().parse().unwrap();
        let mut children = Children::default();
        let mut rest = kinds;
        while !rest.is_empty() {
            let name = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap();
            let (kind, tail) = rest.split_at(name);
            let end = if tail.starts_with('[') {
                tail.find(']').unwrap() + 1
            } else {
                tail.find(',').unwrap_or(tail.len())
            };
            let (ids, tail) = tail.split_at(end);
            children.insert(kind, ids.parse().unwrap());
            rest = tail.trim_start_matches(',');
        }
        for range in ranks.ranges() {
            set.insert(range, children.clone());
        }
    }
    set
}

/// One element per rank, kind and id.
pub(super) type Model = BTreeSet<(u32, &'static str, u32)>;

/// Small sets with many equal nodes and many overlaps.
pub(super) fn model() -> impl Strategy<Value = Model> {
    let kind = prop::sample::select(vec!["core", "gpu", "nic"]);
    let block = (0u32..20, 1u32..6, kind, 0u32..4, 1u32..4);
    prop::collection::vec(block, 0..12).prop_map(|blocks| {
        let mut model = Model::new();
        for (rank, ranks, kind, id, ids) in blocks {
            for rank in rank..rank + ranks {
                model.extend((id..id + ids).map(|id| (rank, kind, id)));
            }
        }
        model
    })
}

/// The set of a model. A rank's host follows from the rank alone, and some ranks have a property,
/// so that any two sets agree on both.
pub(super) fn build(model: &Model) -> ResourceSet {
    let mut nodes: BTreeMap<u32, Children> = BTreeMap::new();
    for (rank, kind, id) in model {
        let children = nodes.entry(*rank).or_default();
        children.insert(kind, Idset::from(*id));
    }
    let mut set = ResourceSet::new();
    for (rank, children) in nodes {
        let mut host = Hostlist::new();
        host.push(&format!("n{}", rank / 3 * 5 + rank)).unwrap();
        set.union_with(&ResourceSet::uniform(rank, &host, children));
    }
    let even = set.ranks().iter().filter(|rank| rank % 2 == 0).collect();
    set.set_property("even", &even).unwrap();
    set
}
