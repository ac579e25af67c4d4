//! Set operations on resources. Their cost follows the runs of ranks that the right operand spans,
//! not the size of the inventory.
//!
//! A subset keeps slots, times, scheduling and nodes of its left operand.

use super::{Idset, ResourceError, ResourceSet};
use std::sync::Arc;

impl ResourceSet {
    /// The resources of either set; see [`ResourceSet::union_with`].
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.union_with(other);
        merged
    }

    /// Adds the resources of `other`, with the hosts and properties of its ranks. On a rank that
    /// both have, this set's host counts.
    pub fn union_with(&mut self, other: &Self) {
        self.learn_nodes(other);
        self.map.add(&other.map);
    }

    /// As [`ResourceSet::union_with`], but refused when a resource is there already.
    ///
    /// # Errors
    /// [`ResourceError::Overlap`]; the set is as it was.
    pub fn append(&mut self, other: &Self) -> Result<(), ResourceError> {
        let common = self.map.intersection(&other.map);
        if !common.runs.is_empty() {
            return Err(ResourceError::Overlap(self.with_map(common).summary()));
        }
        self.union_with(other);
        Ok(())
    }

    /// The resources that aren't in `other`; see [`ResourceSet::subtract`].
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Takes the resources of `other` out, rank by rank and kind by kind. A rank with nothing left
    /// is dropped.
    pub fn subtract(&mut self, other: &Self) {
        self.map.subtract(&other.map);
    }

    /// The resources that both sets have. A rank that is on different hosts in them isn't common.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = self.map.intersection(&other.map);
        if !Arc::ptr_eq(&self.nodes, &other.nodes) {
            let ranks = common.ranks();
            let mine = self.nodes.hosts.restricted(&ranks);
            let conflicts = mine.conflicts(&other.nodes.hosts);
            if !conflicts.is_empty() {
                common = common.restricted(&ranks.difference(&conflicts));
            }
        }
        self.with_map(common)
    }

    /// Whether both sets have a resource in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Whether `other` has every resource of this set.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let common = self.intersection(other);
        common.map == self.map
    }

    /// The resources on `ranks`; ranks that the set doesn't have are ignored.
    #[must_use]
    pub fn with_ranks(&self, ranks: &Idset) -> Self {
        self.with_map(self.map.restricted(ranks))
    }

    /// The resources that aren't on `ranks`.
    #[must_use]
    pub fn without_ranks(&self, ranks: &Idset) -> Self {
        self.with_ranks(&self.ranks().difference(ranks))
    }

    /// Takes over what `other` knows of its ranks.
    fn learn_nodes(&mut self, other: &Self) {
        // Resources that come back to the set they were taken from are the usual case.
        if Arc::ptr_eq(&self.nodes, &other.nodes) {
            return;
        }
        let ranks = other.ranks();
        let theirs = other.nodes.restricted(&ranks);
        if self.nodes.restricted(&ranks) != theirs {
            // What is known of ranks that the set no longer has must not come back.
            self.nodes = Arc::new(self.nodes.restricted(&self.ranks()).or(&theirs));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Model, build, model, r};
    use super::super::{Children, Hostlist};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flux_vectors() {
        let a = r("rank[0-3]/core[0-7],gpu[0-1]");
        let b = r("rank1/core[0-3] rank2/core[0-7],gpu[0-1] rank9/core0");
        let union = "rank[0-3]/core[0-7],gpu[0-1] rank9/core0";
        assert_eq!(a.union(&b).summary(), union);
        let rest = "rank[0,3]/core[0-7],gpu[0-1] rank1/core[4-7],gpu[0-1]";
        assert_eq!(a.difference(&b).summary(), rest);
        let common = "rank1/core[0-3] rank2/core[0-7],gpu[0-1]";
        assert_eq!(a.intersection(&b).summary(), common);

        let some = r("rank0/core[0-3]");
        assert_eq!(some.difference(&r("rank0/core[0-1]")).summary(), "rank0/core[2-3]");
        assert!(some.difference(&some).is_empty());
        assert_eq!(some.union(&r("rank0/gpu0")).summary(), "rank0/core[0-3],gpu0");
        let eleven = r("rank[0-10]/core[0-3]");
        let overlap = eleven.intersection(&r("rank[9-15]/core1"));
        assert_eq!(overlap.summary(), "rank[9-10]/core1");
        let copied = r("rank[0-5]/core0").with_ranks(&"5-9".parse().unwrap());
        assert_eq!(copied.summary(), "rank5/core0");
    }

    #[test]
    fn append_refuses_what_is_there_already() {
        let mut set = r("rank[0-1]/core[0-3]");
        let error = set.append(&r("rank[1-2]/core[3-4]")).unwrap_err();
        assert_eq!(error.to_string(), "resources rank1/core3 are in the set already");
        set.append(&r("rank[1-2]/core4")).unwrap();
        assert_eq!(set.summary(), "rank0/core[0-3] rank1/core[0-4] rank2/core4");
    }

    fn nodes(first_rank: u32, hosts: &str) -> ResourceSet {
        let core = Children::new(Idset::from(0), Idset::new());
        ResourceSet::uniform(first_rank, &hosts.parse::<Hostlist>().unwrap(), core)
    }

    #[test]
    fn a_rank_on_another_host_is_not_common() {
        let common = nodes(0, "n[0-3]").intersection(&nodes(1, "n1,x,n3"));
        assert_eq!(common.summary(), "rank[1,3]/core0");
        let unnamed = nodes(0, "n[0-3]").intersection(&r("rank[1-2]/core0"));
        assert_eq!(unnamed.nodelist().to_string(), "n[1-2]");
    }

    #[test]
    fn a_union_knows_the_hosts_of_both() {
        let both = nodes(4, "n[4-5]").union(&nodes(0, "n[0-3],x"));
        assert_eq!(both.nodelist().to_string(), "n[0-5]");
        // Rank 1 has left: whatever comes back as rank 1 brings its own host.
        let mut pool = nodes(0, "n[0-3]");
        pool.set_property("ssd", &Idset::from(1)).unwrap();
        pool.subtract(&r("rank1/core0"));
        pool.union_with(&nodes(1, "spare"));
        assert_eq!(pool.nodelist().to_string(), "n0,spare,n[2-3]");
        assert!(pool.properties().is_empty());
    }

    #[test]
    fn a_one_node_job_leaves_the_rest_of_a_large_pool_in_one_run() {
        let hosts = "n[0-9999]".parse().unwrap();
        let all = Children::new(Idset::from(0..=127), Idset::from(0..=7));
        let inventory = ResourceSet::uniform(0, &hosts, all);
        let mut free = inventory.clone();
        let job = free.with_ranks(&Idset::from(5000));
        free.subtract(&job);
        assert_eq!(free.runs().count(), 2);
        assert_eq!(free.ncores(), 9_999 * 128);
        free.append(&job.to_json().parse().unwrap()).unwrap();
        assert_eq!(free.runs().count(), 1);
        assert_eq!(free, inventory);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_single_ids(a in model(), b in model(), ranks in prop::collection::btree_set(0u32..24, 0..16)) {
            let (x, y) = (build(&a), build(&b));
            let both: Model = a.union(&b).copied().collect();
            let less: Model = a.difference(&b).copied().collect();
            let common: Model = a.intersection(&b).copied().collect();
            prop_assert_eq!(x.union(&y), build(&both));
            prop_assert_eq!(x.difference(&y), build(&less));
            prop_assert_eq!(x.intersection(&y), build(&common));
            prop_assert_eq!(x.intersects(&y), !common.is_empty());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            let kept = a.iter().filter(|id| ranks.contains(&id.0)).copied().collect();
            let ids = ranks.iter().copied().collect();
            prop_assert_eq!(x.with_ranks(&ids), build(&kept));
            prop_assert_eq!(x.without_ranks(&ids), x.difference(&build(&kept)));
            let cores = a.iter().filter(|id| id.1 == "core").count();
            let on: std::collections::BTreeSet<_> = a.iter().map(|id| id.0).collect();
            prop_assert_eq!(x.ncores(), cores);
            prop_assert_eq!(x.nnodes(), on.len());
            prop_assert_eq!(x.ranks(), on.into_iter().collect());
        }

        #[test]
        fn what_is_taken_can_be_given_back(a in model(), b in model()) {
            let (x, y) = (build(&a), build(&b));
            prop_assert_eq!(x.difference(&y).union(&x.intersection(&y)), x.clone());
            prop_assert_eq!(x.union(&y), y.union(&x));
            prop_assert_eq!(x.union(&y).difference(&y), x.difference(&y));
            let mut rest = x.difference(&y);
            prop_assert!(rest.append(&x.intersection(&y)).is_ok());
            prop_assert_eq!(rest, x);
        }
    }
}
