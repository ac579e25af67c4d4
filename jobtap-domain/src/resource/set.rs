//! The resource set: R of RFC 20, of a whole instance or of one job.
//!
//! The cost of a set operation depends on the runs of ranks that its right operand spans, not on the size
//! of the inventory. Its result takes slots, times, scheduling data and nodes from the left operand.

use super::nodes::{HostMap, Nodes};
use super::rank_map::{RankMap, RankRun};
use super::{Children, Hostlist, HostlistError, Idset, ResourceError};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Resources by rank (R version 1, RFC 20): cores, gpus and other ids of each node, with the hosts,
/// properties and times that belong to them.
///
/// Every rank in a set has at least one id. Copies and subsets share the hosts and properties, so an
/// allocation from a large inventory stays small. Its text form is JSON ([`std::str::FromStr`],
/// [`ResourceSet::to_json`]), its short form [`ResourceSet::summary`].
///
/// ```
/// use jobtap_core::resource::{Children, Idset, ResourceSet};
/// let node = Children::new(Idset::from(0..=3), Idset::from(0));
/// let mut free = ResourceSet::uniform(0, &"n[0-9999]".parse()?, node);
/// let mut job = free.select();
/// job.add(7, Children::new(Idset::from(0..=1), Idset::new()));
/// let job = job.finish();
/// free.subtract(&job);
/// assert_eq!(job.summary(), "rank7/core[0-1]");
/// assert_eq!(job.nodelist().to_string(), "n7");
/// assert_eq!(free.ncores(), 39_998);
/// # Ok::<(), jobtap_core::resource::HostlistError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResourceSet {
    pub(super) map: RankMap,
    /// May have entries for ranks that `map` lacks.
    pub(super) nodes: Arc<Nodes>,
    pub(super) nslots: Option<u64>,
    pub(super) starttime: Option<f64>,
    pub(super) expiration: Option<f64>,
    pub(super) scheduling: Option<Arc<Value>>,
}

impl ResourceSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One host as rank 0, with these cores.
    ///
    /// # Errors
    /// [`HostlistError::Name`] if `host` can't be a host's name.
    pub fn single_host(host: &str, cores: Idset) -> Result<Self, HostlistError> {
        let mut hosts = Hostlist::new();
        hosts.push(host)?;
        Ok(Self::uniform(0, &hosts, Children::new(cores, Idset::new())))
    }

    /// Equal nodes: the first host is rank `first_rank`, the next one the rank after it. Hosts for
    /// which no rank is left are ignored.
    #[must_use]
    pub fn uniform(first_rank: u32, hosts: &Hostlist, children: Children) -> Self {
        let mut ranks = Idset::new();
        if let Some(more) = hosts.len().checked_sub(1) {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            ranks.insert_range(first_rank..=first_rank.saturating_add(more));
        }
        Self::of_parts(
            RankMap::uniform(&ranks, children),
            Nodes { hosts: HostMap::zip(&ranks, hosts), properties: BTreeMap::new() },
        )
    }

    /// Adds ids to each rank of `ranks`. Ranks that are new to the set have no host.
    pub fn insert(&mut self, ranks: RangeInclusive<u32>, children: Children) {
        let map = RankMap::uniform(&Idset::from(ranks), children);
        self.union_with(&Self::of_parts(map, Nodes::default()));
    }

    /// Starts a subset of this set, to which an allocator adds its choice rank by rank.
    #[must_use]
    pub fn select(&self) -> Selection<'_> {
        Selection::new(self)
    }

    /// Whether the set has no rank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.runs.is_empty()
    }

    /// Number of cores on all ranks.
    #[must_use]
    pub fn ncores(&self) -> usize {
        self.map.total(|children| children.cores().len())
    }

    /// Number of gpus on all ranks.
    #[must_use]
    pub fn ngpus(&self) -> usize {
        self.map.total(|children| children.gpus().len())
    }

    /// Number of ranks. As in Flux, two ranks on one host are two nodes.
    #[must_use]
    pub fn nnodes(&self) -> usize {
        self.map.total(|_| 1)
    }

    /// The ranks of the set.
    #[must_use]
    pub fn ranks(&self) -> Idset {
        self.map.ranks()
    }

    /// The hosts in the order of ranks; ranks without a known host are left out.
    #[must_use]
    pub fn nodelist(&self) -> Hostlist {
        self.nodes.hosts.nodelist(&self.ranks())
    }

    /// The host of a rank of the set.
    #[must_use]
    pub fn host(&self, rank: u32) -> Option<String> {
        self.rank(rank)?.host()
    }

    /// Some ranks of the set with their hosts, in the form of Flux's messages: `n[1-2] (rank 1-2)`. A host
    /// with several ranks is named once.
    ///
    /// ```
    /// use jobtap_core::resource::{Children, ResourceSet};
    ///
    /// let cores = Children::new("0-3".parse()?, Default::default());
    /// let resources = ResourceSet::uniform(0, &"n[0-7]".parse()?, cores);
    /// assert_eq!(resources.place(&"1-2,7".parse()?), "n[1-2,7] (rank 1-2,7)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn place(&self, ranks: &Idset) -> String {
        let mut hosts = self.with_ranks(ranks).nodelist();
        hosts.uniq();
        format!("{hosts} (rank {ranks})")
    }

    /// The ranks of the set that are on one of `hosts`.
    #[must_use]
    pub fn ranks_on(&self, hosts: &Hostlist) -> Idset {
        self.nodes.hosts.ranks_on(hosts).intersection(&self.ranks())
    }

    /// The hosts in `hosts` that aren't in the set, in their order.
    #[must_use]
    pub fn unknown_hosts(&self, hosts: &Hostlist) -> Hostlist {
        let is_known =
            |host: &String| host.parse().is_ok_and(|host| !self.ranks_on(&host).is_empty());
        let mut unknown = Hostlist::new();
        for host in hosts.iter().filter(|host| !is_known(host)) {
            // This can't fail: a host of a list is a valid name.
            let _ = unknown.push(&host);
        }
        unknown
    }

    /// The resources of one rank; `None` if the rank isn't in the set.
    #[must_use]
    pub fn rank(&self, rank: u32) -> Option<RankResources<'_>> {
        let children = self.map.get(rank)?;
        Some(RankResources { rank, children, nodes: &self.nodes })
    }

    /// The resources of each rank, in ascending order of ranks.
    pub fn iter(&self) -> impl Iterator<Item = RankResources<'_>> {
        self.runs().flat_map(move |(ranks, children)| {
            ranks.map(move |rank| RankResources { rank, children, nodes: &self.nodes })
        })
    }

    /// Maximal runs of consecutive ranks with equal children, ascending: the cheap way to walk a
    /// large set.
    pub fn runs(&self) -> impl Iterator<Item = (RangeInclusive<u32>, &Children)> {
        self.map.runs.iter().map(|run| (run.first..=run.last, run.children.as_ref()))
    }

    /// Number of slots that a scheduler filled; `None` for an inventory.
    #[must_use]
    pub const fn nslots(&self) -> Option<u64> {
        self.nslots
    }

    /// Sets the number of slots; 0 means unset.
    pub const fn set_nslots(&mut self, nslots: u64) {
        self.nslots = if nslots == 0 { None } else { Some(nslots) };
    }

    /// When the resources become valid, in seconds since the UNIX epoch; `None` if unset.
    #[must_use]
    pub const fn starttime(&self) -> Option<f64> {
        self.starttime
    }

    /// When the resources expire, in seconds since the UNIX epoch; `None` if they don't.
    #[must_use]
    pub const fn expiration(&self) -> Option<f64> {
        self.expiration
    }

    /// Sets both times, in seconds since the UNIX epoch, where 0 means unset as in RFC 20.
    ///
    /// # Errors
    /// Returns an error and leaves the set as it was if the end is not after the start, or if a time
    /// is negative or not finite.
    pub fn set_times(&mut self, starttime: f64, expiration: f64) -> Result<(), ResourceError> {
        let start = time_at("execution.starttime", starttime)?;
        let end = time_at("execution.expiration", expiration)?;
        if start.zip(end).is_some_and(|(start, end)| end <= start) {
            return Err(ResourceError::Times { starttime, expiration });
        }
        (self.starttime, self.expiration) = (start, end);
        Ok(())
    }

    /// Sets the expiration alone, as a `resource-update` event does; 0 means that the set does not expire.
    ///
    /// # Errors
    /// Those of [`set_times`](Self::set_times).
    pub fn set_expiration(&mut self, expiration: f64) -> Result<(), ResourceError> {
        self.set_times(self.starttime.unwrap_or_default(), expiration)
    }

    /// The `scheduling` key of R, which belongs to the scheduler: copied as it is into every non-empty
    /// subset.
    #[must_use]
    pub fn scheduling(&self) -> Option<&Value> {
        self.scheduling.as_deref().filter(|_| !self.is_empty())
    }

    /// Sets the `scheduling` key of R.
    pub fn set_scheduling(&mut self, scheduling: Option<Value>) {
        self.scheduling = scheduling.map(Arc::new);
    }

    /// The properties with the ranks of the set that have them, by name.
    #[must_use]
    pub fn properties(&self) -> BTreeMap<String, Idset> {
        self.nodes.properties_of(&self.ranks())
    }

    /// Gives a property to ranks of the set.
    ///
    /// # Errors
    /// Fails if the name has a reserved character (RFC 20), or if a rank isn't in the set.
    pub fn set_property(&mut self, name: &str, ranks: &Idset) -> Result<(), ResourceError> {
        check_property_name(name)?;
        let unknown = ranks.difference(&self.ranks());
        if !unknown.is_empty() {
            return Err(ResourceError::UnknownRanks(unknown.to_string()));
        }
        if !ranks.is_empty() {
            let properties = &mut Arc::make_mut(&mut self.nodes).properties;
            let holders = properties.entry(name.to_owned()).or_default();
            *holders = holders.union(ranks);
        }
        Ok(())
    }

    /// Removes a property from ranks. Ranks without it are ignored.
    pub fn remove_property(&mut self, name: &str, ranks: &Idset) {
        let properties = &mut Arc::make_mut(&mut self.nodes).properties;
        if let Some(holders) = properties.get_mut(name) {
            *holders = holders.difference(ranks);
            if holders.is_empty() {
                properties.remove(name);
            }
        }
    }

    /// Removes the properties that are local to the instance, which have a leading `+`. A job's R
    /// doesn't have them.
    pub fn remove_local_properties(&mut self) {
        let local = |name: &String| name.starts_with('+');
        if self.nodes.properties.keys().any(local) {
            let properties = &mut Arc::make_mut(&mut self.nodes).properties;
            properties.retain(|name, _| !local(name));
        }
    }

    /// The short form, as in `sched.resource_summary`:
    /// `rank[0-1]/core[0-3],gpu0 rank9/core0`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (ranks, children) in self.map.groups() {
            text.push_str(if text.is_empty() { "rank" } else { " rank" });
            ranks.push_brackets_to(&mut text);
            text.push('/');
            children.write_summary(&mut text);
        }
        text
    }

    pub(super) fn of_parts(map: RankMap, nodes: Nodes) -> Self {
        Self { map, nodes: Arc::new(nodes), ..Self::default() }
    }

    /// The resources of `map`, with the nodes, slots, times and scheduling data of this set.
    pub(super) fn with_map(&self, map: RankMap) -> Self {
        Self {
            map,
            nodes: self.nodes.clone(),
            nslots: self.nslots,
            starttime: self.starttime,
            expiration: self.expiration,
            scheduling: self.scheduling.clone(),
        }
    }
}

impl PartialEq for ResourceSet {
    fn eq(&self, other: &Self) -> bool {
        let same_nodes = || {
            let ranks = self.ranks();
            Arc::ptr_eq(&self.nodes, &other.nodes)
                || self.nodes.restricted(&ranks) == other.nodes.restricted(&ranks)
        };
        self.map == other.map
            && self.nslots == other.nslots
            && self.starttime == other.starttime
            && self.expiration == other.expiration
            && self.scheduling() == other.scheduling()
            && same_nodes()
    }
}

/// The resources of one rank of a [`ResourceSet`].
#[derive(Clone, Copy, Debug)]
pub struct RankResources<'a> {
    rank: u32,
    children: &'a Children,
    nodes: &'a Nodes,
}

impl<'a> RankResources<'a> {
    /// The rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// The host's name, if known.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        self.nodes.hosts.get(self.rank)
    }

    /// Ids of the cores.
    #[must_use]
    pub const fn cores(&self) -> &'a Idset {
        self.children.cores()
    }

    /// Ids of the gpus.
    #[must_use]
    pub const fn gpus(&self) -> &'a Idset {
        self.children.gpus()
    }

    /// All ids, by kind.
    #[must_use]
    pub const fn children(&self) -> &'a Children {
        self.children
    }

    /// Whether the rank has a property. The part of a property's name after `@` is for the scheduler
    /// (RFC 20): a rank with `mi50@gpu` has `mi50` too.
    #[must_use]
    pub fn has_property(&self, name: &str) -> bool {
        self.nodes.has_property(name, self.rank)
    }
}

/// A time of RFC 20, where 0 means unset.
fn time_at(path: &str, seconds: f64) -> Result<Option<f64>, ResourceError> {
    if seconds.is_finite() && seconds >= 0.0 {
        Ok(Some(seconds).filter(|s| *s > 0.0))
    } else {
        Err(ResourceError::Number {
            path: path.to_owned(),
            rule: "must be seconds since the UNIX epoch, or 0 for unset",
            found: seconds.to_string(),
        })
    }
}

/// The characters that a property's name may not have, since constraints (RFC 31) and queries
/// (RFC 35) use them.
pub(super) const RESERVED_IN_PROPERTIES: &str = "!&'\"^`|()";

/// Returns an error if a constraint couldn't name the property.
pub(super) fn check_property_name(name: &str) -> Result<(), ResourceError> {
    match name.chars().find(|c| RESERVED_IN_PROPERTIES.contains(*c)) {
        Some(character) => {
            Err(ResourceError::PropertyName { character, property: name.to_owned() })
        }
        None => Ok(()),
    }
}

/// An allocator's choice from a [`ResourceSet`], built rank by rank. It is started with
/// [`ResourceSet::select`].
///
/// The finished subset has the hosts, properties and times of the set that it was chosen from, so an
/// allocator can't forget them.
#[derive(Debug)]
pub struct Selection<'a> {
    pool: &'a ResourceSet,
    pieces: Vec<RankRun>,
}

impl<'a> Selection<'a> {
    const fn new(pool: &'a ResourceSet) -> Self {
        Self { pool, pieces: Vec::new() }
    }

    /// Chooses ids of one rank. Ranks may come in any order and more than once.
    pub fn add(&mut self, rank: u32, children: Children) -> &mut Self {
        self.add_ranks(rank..=rank, children)
    }

    /// Chooses the same ids of each of these ranks.
    pub fn add_ranks(&mut self, ranks: RangeInclusive<u32>, children: Children) -> &mut Self {
        let (first, last) = ranks.into_inner();
        if first <= last && !children.is_empty() {
            self.pieces.push(RankRun { first, last, children: Arc::new(children) });
        }
        self
    }

    /// Chooses all ids of a rank.
    pub fn add_whole(&mut self, rank: u32) -> &mut Self {
        if let Some(children) = self.pool.map.get(rank) {
            self.pieces.push(RankRun { first: rank, last: rank, children: children.clone() });
        }
        self
    }

    /// The chosen subset, with the slots, times and scheduling data of the set that it was chosen
    /// from. Ids that are not in that set are left out.
    #[must_use]
    pub fn finish(self) -> ResourceSet {
        let chosen = RankMap::of_pieces(self.pieces);
        self.pool.with_map(self.pool.map.intersection(&chosen))
    }
}

impl ResourceSet {
    /// The resources of either set; see [`ResourceSet::union_with`].
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.union_with(other);
        merged
    }

    /// Adds the resources of `other`, with the hosts and properties of its ranks. A rank that is in
    /// both sets keeps the host that it has in `self`.
    pub fn union_with(&mut self, other: &Self) {
        self.merge_nodes(other);
        self.map.add(&other.map);
    }

    /// Like [`ResourceSet::union_with`], but fails if the sets have a resource in common.
    ///
    /// # Errors
    /// [`ResourceError::Overlap`]; the set is left as it was.
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

    /// Removes the resources of `other`, rank by rank and kind by kind. A rank without any ids left is
    /// removed.
    pub fn subtract(&mut self, other: &Self) {
        self.map.subtract(&other.map);
    }

    /// The resources that both sets have. A rank that has different hosts in them is not common.
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

    /// The same ranks and ids, without the names of hosts.
    #[must_use]
    pub fn without_hosts(&self) -> Self {
        let mut nameless = self.clone();
        Arc::make_mut(&mut nameless.nodes).hosts = HostMap::default();
        nameless
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

    /// Copies the hosts and properties of `other`'s ranks.
    fn merge_nodes(&mut self, other: &Self) {
        // The usual case: resources are returned to the set that they were taken from.
        if Arc::ptr_eq(&self.nodes, &other.nodes) {
            return;
        }
        let ranks = other.ranks();
        let theirs = other.nodes.restricted(&ranks);
        if self.nodes.restricted(&ranks) != theirs {
            // Entries of ranks that the set no longer has must not take effect again.
            self.nodes = Arc::new(self.nodes.restricted(&self.ranks()).or(&theirs));
        }
    }
}

impl ResourceSet {
    /// Renumbers the ranks from 0 in their order, and the cores of each rank from 0. This is what an
    /// instance does with the R that it was started in, since its own ranks and cores count from 0.
    /// Gpus keep their ids, which name devices.
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

    /// Renumbers the ranks by the order of `hosts`: the host at index i becomes rank i.
    ///
    /// # Errors
    /// Fails if `hosts` does not name exactly the hosts of the set.
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

    /// The ranks in the order of `hosts`. Ranks that share a host are in ascending order.
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
    use super::super::sample::{Model, build, model, r};
    use super::*;
    use proptest::prelude::*;

    fn ids(text: &str) -> Idset {
        text.parse().unwrap()
    }

    #[test]
    fn a_single_host_is_rank_0() {
        let set = ResourceSet::single_host("login", ids("0-7")).unwrap();
        assert_eq!(set.summary(), "rank0/core[0-7]");
        assert_eq!(set.host(0).unwrap(), "login");
        assert_eq!((set.nnodes(), set.ncores(), set.ngpus()), (1, 8, 0));
        assert!(ResourceSet::single_host("a b", ids("0")).is_err());
    }

    #[test]
    fn a_subset_keeps_hosts_properties_and_times() {
        let node = Children::new(ids("0-3"), ids("0-1"));
        let mut pool = ResourceSet::uniform(4, &"n[4-9]".parse().unwrap(), node);
        pool.set_property("ssd", &ids("5-6")).unwrap();
        pool.set_property("+idle", &ids("5")).unwrap();
        pool.set_times(100.0, 200.5).unwrap();
        pool.set_scheduling(Some(serde_json::json!({"writer": "x:"})));
        let mut chosen = pool.select();
        chosen.add(9, Children::new(ids("0"), ids("1"))).add_whole(5);
        chosen.add(5, Children::new(ids("7"), ids("")));
        let mut job = chosen.finish();
        job.set_nslots(3);
        job.remove_local_properties();
        assert_eq!(job.summary(), "rank5/core[0-3],gpu[0-1] rank9/core0,gpu1");
        assert_eq!(job.nodelist().to_string(), "n[5,9]");
        assert_eq!(job.properties(), [("ssd".to_owned(), ids("5"))].into());
        assert_eq!((job.starttime(), job.expiration()), (Some(100.0), Some(200.5)));
        assert_eq!(job.nslots(), Some(3));
        assert!(job.scheduling().is_some());
        assert!(job.difference(&job).scheduling().is_none());
        assert!(pool.rank(5).unwrap().has_property("+idle"));
        assert!(job.is_subset(&pool) && !pool.is_subset(&job));
    }

    #[test]
    fn refuses_invalid_times() {
        let mut set = r("rank0/core0");
        set.set_times(10.0, 0.0).unwrap();
        assert!(set.set_expiration(10.0).is_err());
        assert!(set.set_times(-1.0, 0.0).is_err());
        assert!(set.set_times(f64::NAN, 0.0).is_err());
        assert_eq!((set.starttime(), set.expiration()), (Some(10.0), None));
        set.set_expiration(11.0).unwrap();
        assert_eq!(set.expiration(), Some(11.0));
    }

    #[test]
    fn refuses_properties_of_unknown_ranks() {
        let mut set = r("rank[0-10]/core0");
        let message = |result: Result<(), ResourceError>| result.unwrap_err().to_string();
        assert_eq!(
            message(set.set_property("foo", &ids("5-30"))),
            "ranks 11-30 not found in target resource list"
        );
        assert_eq!(
            message(set.set_property("fo^o", &ids("5"))),
            "invalid character '^' in property \"fo^o\""
        );
        set.set_property("foo@x", &ids("5-6")).unwrap();
        set.remove_property("foo@x", &ids("6-7"));
        assert_eq!(set.properties()["foo@x"], ids("5"));
        assert!(set.without_ranks(&ids("5")).properties().is_empty());
    }

    #[test]
    fn iterates_over_ranks_in_order() {
        let set = r("rank[1,3]/core[0-1] rank2/gpu0");
        let seen: Vec<_> =
            set.iter().map(|node| (node.rank(), node.cores().len(), node.gpus().len())).collect();
        assert_eq!(seen, [(1, 2, 0), (2, 0, 1), (3, 2, 0)]);
        assert!(set.rank(0).is_none());
        assert_eq!(set.runs().count(), 3);
    }

    #[test]
    fn finds_ranks_by_host() {
        let node = Children::new(ids("0"), ids(""));
        let set = ResourceSet::uniform(0, &"n[0-9]".parse().unwrap(), node);
        let some = set.with_ranks(&ids("2-9"));
        assert_eq!(some.ranks_on(&"n[1-3,12],x".parse().unwrap()), ids("2-3"));
        assert_eq!(some.host(1), None);
    }

    #[test]
    fn algebra_of_the_examples_of_flux() {
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
    fn append_refuses_common_resources() {
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
    fn a_union_has_the_hosts_of_both() {
        let both = nodes(4, "n[4-5]").union(&nodes(0, "n[0-3],x"));
        assert_eq!(both.nodelist().to_string(), "n[0-5]");
        // Rank 1 was removed: a rank 1 that is added later has its own host.
        let mut pool = nodes(0, "n[0-3]");
        pool.set_property("ssd", &Idset::from(1)).unwrap();
        pool.subtract(&r("rank1/core0"));
        pool.union_with(&nodes(1, "spare"));
        assert_eq!(pool.nodelist().to_string(), "n0,spare,n[2-3]");
        assert!(pool.properties().is_empty());
    }

    #[test]
    fn subtracting_one_node_keeps_the_pool_in_few_runs() {
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
        fn subtract_then_union_restores_the_set(a in model(), b in model()) {
            let (x, y) = (build(&a), build(&b));
            prop_assert_eq!(x.difference(&y).union(&x.intersection(&y)), x.clone());
            prop_assert_eq!(x.union(&y), y.union(&x));
            prop_assert_eq!(x.union(&y).difference(&y), x.difference(&y));
            let mut rest = x.difference(&y);
            prop_assert!(rest.append(&x.intersection(&y)).is_ok());
            prop_assert_eq!(rest, x);
        }
    }

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
    fn remap_keeps_hosts_and_properties() {
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
