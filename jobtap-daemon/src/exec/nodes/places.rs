//! Which node of an allocation gets which rank: the places that the tables of an elastic instance have.

use std::collections::BTreeMap;

use jobtap_core::engine::AllocationId;
use jobtap_core::resource::Idset;

use super::admission::Pass;
use super::wire::NodeInfo;

/// An allocation whose nodes may join, or have joined.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// The ranks of its nodes.
    pub ranks: Idset,
    /// The cores that each of them must have.
    pub cores: u32,
    /// The GPUs that each of them must have.
    pub gpus: u32,
    /// The nodes that have joined an earlier manager: their ranks and hosts.
    pub joined: Vec<(u32, String)>,
}

/// Why a node of an allocation gets no place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    /// The allocation isn't one of the instance's any more.
    #[error("allocation {0} is over")]
    Over(AllocationId),
    /// There are more nodes than ordered.
    #[error("allocation {id} has only {places} nodes, which have all joined")]
    Full { id: AllocationId, places: usize },
    /// Two processes run on one host.
    #[error("two processes of allocation {id} are on {host}: start one on each node")]
    SameHost { id: AllocationId, host: String },
    /// It has less than was ordered.
    #[error("{host} has {has} for jobs, and the table says {wanted}")]
    TooSmall { host: String, has: String, wanted: String },
}

/// An allocation's ranks, and who has them.
struct Allocation {
    expected: Expected,
    nodes: BTreeMap<u32, Holder>,
}

/// The node that has a rank.
struct Holder {
    host: String,
    /// The name of its process; `None` if only an earlier manager knew it.
    process: Option<String>,
}

/// The places of all allocations.
#[derive(Default)]
pub(super) struct Places {
    allocations: BTreeMap<AllocationId, Allocation>,
}

impl Places {
    /// Nodes of this allocation may join. One that is known already keeps its nodes.
    pub(super) fn expect(&mut self, id: AllocationId, expected: Expected) {
        let holder =
            |(rank, host): &(u32, String)| (*rank, Holder { host: host.clone(), process: None });
        let nodes = expected.joined.iter().map(holder).collect();
        self.allocations.entry(id).or_insert(Allocation { expected, nodes });
    }

    /// The ranks of an allocation.
    pub(super) fn ranks(&self, id: AllocationId) -> Idset {
        let found = self.allocations.get(&id);
        found.map(|allocation| allocation.expected.ranks.clone()).unwrap_or_default()
    }

    /// The ranks of an allocation whose nodes have joined.
    pub(super) fn joined(&self, id: AllocationId) -> Idset {
        let found = self.allocations.get(&id).into_iter();
        found.flat_map(|allocation| allocation.nodes.keys().copied()).collect()
    }

    /// The allocation to which a rank belongs.
    pub(super) fn of_rank(&self, rank: u32) -> Option<AllocationId> {
        let has = |allocation: &Allocation| allocation.expected.ranks.contains(rank);
        self.allocations.iter().find(|(_, allocation)| has(allocation)).map(|(id, _)| *id)
    }

    /// The allocation is over.
    pub(super) fn forget(&mut self, id: AllocationId) {
        self.allocations.remove(&id);
    }

    /// Gives a node its place: that which it had, or a free one. The flag says whether it has joined this manager before.
    pub(super) fn give(&mut self, pass: &Pass, node: &NodeInfo) -> Result<(u32, bool), NoPlace> {
        let id = pass.allocation;
        let Some(allocation) = self.allocations.get_mut(&id) else { return Err(NoPlace::Over(id)) };
        let Allocation { expected, nodes } = allocation;
        let host = &node.host;
        if let Some((rank, holder)) = nodes.iter_mut().find(|(_, holder)| holder.host == *host) {
            return match &holder.process {
                Some(process) if *process == pass.process => Ok((*rank, true)),
                Some(_) => Err(NoPlace::SameHost { id, host: host.clone() }),
                None => {
                    holder.process = Some(pass.process.clone());
                    Ok((*rank, false))
                }
            };
        }
        let has = (node.cores.len(), node.gpus.len());
        let wanted = (expected.cores, expected.gpus);
        if has.0 < wanted.0 as usize || has.1 < wanted.1 as usize {
            let (has, wanted) = (say(has.0, has.1), say(wanted.0 as usize, wanted.1 as usize));
            return Err(NoPlace::TooSmall { host: host.clone(), has, wanted });
        }
        let mut free = expected.ranks.iter().filter(|rank| !nodes.contains_key(rank));
        let Some(rank) = free.next() else {
            return Err(NoPlace::Full { id, places: expected.ranks.len() });
        };
        let process = Some(pass.process.clone());
        nodes.insert(rank, Holder { host: host.clone(), process });
        Ok((rank, false))
    }
}

/// The resources of a node, in words.
fn say(cores: usize, gpus: usize) -> String {
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    match gpus {
        0 => count(cores, "core"),
        _ => format!("{} and {}", count(cores, "core"), count(gpus, "GPU")),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    const ID: AllocationId = AllocationId(NonZeroU64::MIN);

    fn pass(process: &str) -> Pass {
        Pass { allocation: ID, secret: String::new(), process: process.to_owned(), ends_at: None }
    }

    fn node(host: &str, cores: u32) -> NodeInfo {
        NodeInfo {
            rank: 0,
            host: host.to_owned(),
            cores: (0..cores).collect(),
            gpus: Idset::new(),
            program: "1".to_owned(),
            uri: None,
        }
    }

    fn of_two(joined: &[(u32, &str)]) -> Places {
        let joined = joined.iter().map(|(rank, host)| (*rank, (*host).to_owned())).collect();
        let mut places = Places::default();
        let expected = Expected { ranks: Idset::from(3..=4), cores: 2, gpus: 0, joined };
        places.expect(ID, expected);
        places
    }

    #[test]
    fn each_node_gets_a_place_and_keeps_it() {
        let mut places = of_two(&[]);
        assert_eq!(places.give(&pass("a"), &node("n1", 2)), Ok((3, false)));
        assert_eq!(places.give(&pass("b"), &node("n2", 8)), Ok((4, false)));
        assert_eq!(places.give(&pass("a"), &node("n1", 2)), Ok((3, true)));
        assert_eq!((places.of_rank(4), places.of_rank(5)), (Some(ID), None));
        let full = places.give(&pass("c"), &node("n3", 2)).unwrap_err().to_string();
        assert_eq!(full, "allocation 1 has only 2 nodes, which have all joined");
        let twice = places.give(&pass("c"), &node("n1", 2)).unwrap_err().to_string();
        assert_eq!(twice, "two processes of allocation 1 are on n1: start one on each node");
        places.forget(ID);
        assert_eq!(places.give(&pass("a"), &node("n1", 2)), Err(NoPlace::Over(ID)));
    }

    #[test]
    fn a_node_with_less_than_was_ordered_is_refused() {
        let mut places = of_two(&[]);
        let refused = places.give(&pass("a"), &node("n1", 1)).unwrap_err().to_string();
        assert_eq!(refused, "n1 has 1 core for jobs, and the table says 2 cores");
        assert_eq!(say(4, 1), "4 cores and 1 GPU");
    }

    #[test]
    fn nodes_of_an_earlier_manager_are_known_by_their_hosts() {
        let mut places = of_two(&[(4, "n9")]);
        assert_eq!(places.give(&pass("a"), &node("n9", 2)), Ok((4, false)));
        assert_eq!(places.give(&pass("a"), &node("n9", 2)), Ok((4, true)));
        assert_eq!(places.give(&pass("b"), &node("n1", 2)), Ok((3, false)));
        assert_eq!(places.joined(ID), Idset::from(3..=4));
    }
}
