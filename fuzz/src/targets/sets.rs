//! Sets: of ids, of hosts, of tasks on nodes, of resources, and what selects nodes.

use jobtap_domain::job::TaskMap;
use jobtap_domain::resource::{Constraint, Hostlist, Idset, ResourceSet};
use serde_json::Value;

use crate::again::{json, parsed, text};

/// How many members of a set are looked at one by one.
const SOME: usize = 100;

/// Idsets, with and without brackets.
pub(super) fn idset(bytes: &[u8]) {
    json::<Idset>(bytes);
    let Some(text) = text(bytes) else { return };
    let Some(ids) = parsed::<Idset>(text) else { return };
    // Without ranges, the text is as long as the set is large.
    let plain = (ids.len() <= SOME).then(|| ids.plain());
    for written in plain.into_iter().chain([ids.brackets()]) {
        assert_eq!(written.parse().as_ref(), Ok(&ids), "{written}");
    }
    let counted: u64 = ids.ranges().map(|run| u64::from(run.end() - run.start()) + 1).sum();
    assert_eq!(counted, ids.len() as u64);
    assert_eq!((ids.iter().next(), ids.iter().next_back()), (ids.first(), ids.last()));
    assert!(ids.iter().take(SOME).all(|id| ids.contains(id)));
    assert_eq!(ids.intersection(&ids), ids);
    assert!(ids.difference(&ids).is_empty());
}

/// Hostlists.
pub(super) fn hostlist(bytes: &[u8]) {
    json::<Hostlist>(bytes);
    let Some(text) = text(bytes) else { return };
    let Some(hosts) = parsed::<Hostlist>(text) else { return };
    assert_eq!((hosts.nth(0).is_none(), hosts.nth(0)), (hosts.is_empty(), hosts.first()));
    assert_eq!(hosts.len().checked_sub(1).and_then(|last| hosts.nth(last)), hosts.last());
    let mut same = Hostlist::default();
    for (index, name) in hosts.iter().enumerate().take(SOME) {
        assert_eq!(hosts.nth(index).as_ref(), Some(&name));
        assert!(hosts.find(&name).is_some_and(|first| first <= index), "{name}");
        assert!(same.push(&name).is_ok(), "{name}");
    }
    if hosts.len() <= SOME {
        assert_eq!(same, hosts);
    }
    let mut sorted = hosts.clone();
    sorted.sort();
    assert_eq!(sorted.len(), hosts.len());
    sorted.uniq();
    assert!(sorted.len() <= hosts.len());
    assert!(sorted.first().is_none_or(|name| hosts.contains(&name)));
}

/// Maps of tasks to nodes, in the forms of RFC 34, of PMI and of the option `taskmap`.
pub(super) fn taskmap(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(bytes)
        && let Ok(map) = TaskMap::from_value(&value)
    {
        assert_eq!(TaskMap::from_value(&map.to_value()).ok(), Some(map));
    }
    let Some(text) = text(bytes) else { return };
    let Some(map) = parsed::<TaskMap>(text) else { return };
    // These forms are as long as the map is large.
    if map.ntasks().max(map.nnodes()) <= SOME as u64 {
        for written in [map.to_raw(), map.to_pmi()] {
            let again = written.parse::<TaskMap>().map(|map| (map.ntasks(), map.to_raw()));
            assert_eq!(again.ok(), Some((map.ntasks(), map.to_raw())), "{written}");
        }
    }
    for task in 0..map.ntasks().min(SOME as u64) {
        assert!(map.node_of(task).is_some_and(|node| node < map.nnodes()), "{task}");
    }
    assert_eq!(map.place_of(map.ntasks()), None);
}

/// Resource sets: R of RFC 20.
pub(super) fn resource_set(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(set) = text.parse::<ResourceSet>() else { return };
    let written = set.to_json();
    assert_eq!(written.parse().as_ref(), Ok(&set), "{written}");
    assert_eq!(set.nnodes(), set.ranks().len());
    let first = set.ranks().lowest(1);
    let (one, rest) = (set.with_ranks(&first), set.without_ranks(&first));
    assert_eq!((one.nnodes() + rest.nnodes(), one.intersects(&rest)), (set.nnodes(), false));
    assert_eq!(one.ncores() + rest.ncores(), set.ncores());
    assert!(one.is_subset(&set));
    assert_eq!(set.remap().nnodes(), set.nnodes());
    assert!(!set.summary().contains('\n') || text.contains("\\n"));
}

/// Constraints as JSON (RFC 31).
pub(super) fn constraint(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(constraint) = Constraint::from_value(&value) {
        same_in_json(&constraint);
    }
}

/// Constraints as users write them (RFC 35).
pub(super) fn constraint_query(bytes: &[u8]) {
    if let Some(Ok(constraint)) = text(bytes).map(Constraint::from_query) {
        same_in_json(&constraint);
    }
}

fn same_in_json(constraint: &Constraint) {
    let value = constraint.to_value();
    assert_eq!(Constraint::from_value(&value).as_ref(), Ok(constraint), "{value}");
}
