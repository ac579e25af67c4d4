//! The cores and GPUs of a job on a node of an allocation, by the numbers that they have there.
//!
//! A table says how many cores a node has, and the resources of the instance number them from 0. Which ones the outer job
//! manager has given, nobody knows before the node has joined.

use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use serde_json::Value;

use super::wire::NodeInfo;

/// Replaces the numbers of a node's cores and GPUs in R by those that the node has.
pub(super) fn renumber(r: &mut Value, node: &NodeInfo) {
    let is_plain = |ids: &Idset| ids.iter().zip(0u32..).all(|(id, place)| id == place);
    if is_plain(&node.cores) && is_plain(&node.gpus) {
        return;
    }
    // What isn't R is for the shepherd to refuse.
    let Ok(set) = ResourceSet::from_value(r) else { return };
    if let Some(set) = renumbered(&set, node) {
        *r = set.to_value();
    }
}

/// `None` if the job has nothing on the node.
fn renumbered(set: &ResourceSet, node: &NodeInfo) -> Option<ResourceSet> {
    let own = set.rank(node.rank)?;
    let children =
        Children::new(numbered(own.cores(), &node.cores), numbered(own.gpus(), &node.gpus));
    let hosts: Hostlist = own.host().unwrap_or_default().parse().ok()?;
    let mut others = set.without_ranks(&Idset::from(node.rank));
    others.union_with(&ResourceSet::uniform(node.rank, &hosts, children));
    Some(others)
}

/// The numbers on the node of these, which count from 0.
fn numbered(places: &Idset, ids: &Idset) -> Idset {
    let ids: Vec<u32> = ids.iter().collect();
    let number = |place: u32| ids.get(place as usize).copied().unwrap_or(place);
    places.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_cores_and_gpus_that_the_node_was_given() {
        let node = Children::new(Idset::from(1..=2), Idset::from(0));
        let set = ResourceSet::uniform(3, &"n[7-8]".parse().unwrap(), node);
        let mut r = set.to_value();
        let mut info = NodeInfo {
            rank: 4,
            host: "n8".to_owned(),
            cores: "0-3".parse().unwrap(),
            gpus: Idset::from(0..=1),
            program: "1".to_owned(),
            uri: None,
        };
        renumber(&mut r, &info);
        assert_eq!(r, set.to_value());
        (info.cores, info.gpus) = ("4-5,8-9".parse().unwrap(), "2-3".parse().unwrap());
        renumber(&mut r, &info);
        let set = ResourceSet::from_value(&r).unwrap();
        assert_eq!(set.summary(), "rank3/core[1-2],gpu0 rank4/core[5,8],gpu2");
        assert_eq!(set.nodelist().to_string(), "n[7-8]");
    }
}
