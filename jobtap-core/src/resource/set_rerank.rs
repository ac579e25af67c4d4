//! Renumbering: what an instance does with the R that it was started in, where its own brokers and
//! cores count from 0.

use super::host_map::HostMap;
use super::nodes::Nodes;
use super::rank_map::RankMap;
use super::{Children, Hostlist, Idset, ResourceError, ResourceSet};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

impl ResourceSet {
    /// Numbers ranks 0..n-1 in their order and the cores of each rank 0..m-1. Ids of gpus stay: they
    /// name devices.
    #[must_use]
    pub fn remap(&self) -> Self {
        let mut map = RankMap::default();
        let mut next = 0u32;
        for run in &self.map.runs {
            let last = next + (run.last - run.first);
            map.push(next, last, Arc::new(with_compact_cores(&run.children)));
            next = last.saturating_add(1);
        }
        let mut remapped = self.with_map(map);
        remapped.nodes = Arc::new(self.nodes.compacted(&self.ranks()));
        remapped
    }

    /// Numbers ranks by the order of `hosts`: the host at index i becomes rank i. Every rank needs
    /// its host in the list, and the list no more than these.
    ///
    /// # Errors
    /// Too few or too many hosts, or one that the set lacks.
    pub fn rerank(&self, hosts: &Hostlist) -> Result<Self, ResourceError> {
        let (given, nodes) = (hosts.len(), self.nnodes());
        if given < nodes {
            return Err(ResourceError::TooFewHosts { hosts: given, nodes });
        }
        if given > nodes {
            return Err(ResourceError::TooManyHosts { hosts: given, nodes });
        }
        let old_ranks = self.ranks_by(hosts)?;
        let mut map = RankMap::default();
        let mut new_rank = FxHashMap::default();
        for (new, old) in (0u32..).zip(&old_ranks) {
            if let Some(children) = self.map.get(*old) {
                map.push(new, new, children.clone());
                new_rank.insert(*old, new);
            }
        }
        let properties = self
            .properties()
            .into_iter()
            .map(|(name, ranks)| {
                let renumbered = ranks.iter().filter_map(|old| new_rank.get(&old).copied());
                (name, renumbered.collect::<Idset>())
            })
            .collect();
        let mut reranked = self.with_map(map);
        reranked.nodes =
            Arc::new(Nodes { hosts: HostMap::zip(&reranked.ranks(), hosts), properties });
        Ok(reranked)
    }

    /// The ranks in the order of `hosts`. Ranks that share a host are taken in their own order.
    fn ranks_by(&self, hosts: &Hostlist) -> Result<Vec<u32>, ResourceError> {
        let mut ranks: FxHashMap<String, VecDeque<u32>> = FxHashMap::default();
        for node in self.iter() {
            if let Some(host) = node.host() {
                ranks.entry(host).or_default().push_back(node.rank());
            }
        }
        hosts
            .iter()
            .map(|host| {
                ranks
                    .get_mut(&host)
                    .and_then(VecDeque::pop_front)
                    .ok_or(ResourceError::UnknownHost(host))
            })
            .collect()
    }
}

fn with_compact_cores(children: &Children) -> Children {
    let cores = children.cores().compacted(children.cores());
    let mut compact = Children::new(cores, children.gpus().clone());
    for (kind, ids) in children.iter().filter(|(kind, _)| *kind != "core") {
        compact.insert(kind, ids.clone());
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::super::sample::r;
    use super::*;

    fn cluster(hosts: &str) -> ResourceSet {
        let core = Children::new(Idset::from(0), Idset::new());
        ResourceSet::uniform(0, &hosts.parse().unwrap(), core)
    }

    #[test]
    fn remap_counts_from_0() {
        let set = r("rank[1,7,9,53]/core[1,5,7,9],gpu[1,3]");
        assert_eq!(set.remap().summary(), "rank[0-3]/core[0-3],gpu[1,3]");
    }

    #[test]
    fn remap_moves_hosts_and_properties_along() {
        let mut set = cluster("n[0-9]").with_ranks(&"2,5-6".parse().unwrap());
        set.set_property("ssd", &"2,6".parse().unwrap()).unwrap();
        let remapped = set.remap();
        assert_eq!(remapped.nodelist().to_string(), "n[2,5-6]");
        assert_eq!(remapped.properties()["ssd"].to_string(), "0,2");
        assert_eq!(remapped.host(1).unwrap(), "n5");
    }

    #[test]
    fn rerank_follows_the_list() {
        let mut set = cluster("foo[0-15]");
        set.insert(3..=3, Children::new(Idset::from(1), Idset::new()));
        set.set_property("ssd", &Idset::from(3)).unwrap();
        let reranked = set.rerank(&"foo[3,0-2,4-15]".parse().unwrap()).unwrap();
        assert_eq!(reranked.summary(), "rank0/core[0-1] rank[1-15]/core0");
        assert_eq!(reranked.host(0).unwrap(), "foo3");
        assert_eq!(reranked.properties()["ssd"], Idset::from(0));
    }

    #[test]
    fn rerank_needs_exactly_the_hosts_of_the_set() {
        let set = cluster("foo[0-15]");
        let message = |hosts: &str| set.rerank(&hosts.parse().unwrap()).unwrap_err().to_string();
        assert_eq!(message("foo[0-14]"), "Number of hosts (15) is less than node count (16)");
        assert_eq!(message("foo[0-16]"), "Number of hosts (17) is greater than node count (16)");
        assert_eq!(message("foo[1-16]"), "Host foo16 not found in resources");
    }

    #[test]
    fn ranks_on_one_host_keep_their_order() {
        let mut set = cluster("a,a,b");
        set.insert(1..=1, Children::new(Idset::from(1), Idset::new()));
        let reranked = set.rerank(&"b,a,a".parse().unwrap()).unwrap();
        assert_eq!(reranked.summary(), "rank[0-1]/core0 rank2/core[0-1]");
    }
}
