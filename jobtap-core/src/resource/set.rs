//! The resource set: R of RFC 20, of a whole instance or of one job.

use super::host_map::HostMap;
use super::nodes::Nodes;
use super::rank_map::RankMap;
use super::{Children, Hostlist, HostlistError, Idset, ResourceError, Selection};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Resources by rank (R version 1, RFC 20): cores, gpus and other ids of each node, with the hosts,
/// properties and times that belong to them.
///
/// Every rank in a set has at least one id. Copies and subsets share what is known of the nodes, so
/// an allocation out of a large inventory stays small. Its text form is JSON ([`std::str::FromStr`],
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
    /// May know more ranks than `map` has.
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
    /// A host's name that none can have.
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

    /// Starts a subset of this set, to which an allocator adds what it has chosen.
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

    /// Some ranks of the set with their hosts, as Flux's messages write them: `n[1-2] (rank 1-2)`. A
    /// host that several of them are on is named once.
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

    /// What one rank has; `None` if the set doesn't have the rank.
    #[must_use]
    pub fn rank(&self, rank: u32) -> Option<RankResources<'_>> {
        let children = self.map.get(rank)?;
        Some(RankResources { rank, children, nodes: &self.nodes })
    }

    /// The ranks in ascending order, each with what it has.
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

    /// When the resources end, in seconds since the UNIX epoch; `None` for no end.
    #[must_use]
    pub const fn expiration(&self) -> Option<f64> {
        self.expiration
    }

    /// Sets both times, in seconds since the UNIX epoch, where 0 means unset as in RFC 20. Refused
    /// when the end is not after the start, or a time is negative or not finite.
    ///
    /// # Errors
    /// The refusal; the set is as it was.
    pub fn set_times(&mut self, starttime: f64, expiration: f64) -> Result<(), ResourceError> {
        let start = time_at("execution.starttime", starttime)?;
        let end = time_at("execution.expiration", expiration)?;
        if start.zip(end).is_some_and(|(start, end)| end <= start) {
            return Err(ResourceError::Times { starttime, expiration });
        }
        (self.starttime, self.expiration) = (start, end);
        Ok(())
    }

    /// Sets the end alone, as a `resource-update` event does; 0 means no end.
    ///
    /// # Errors
    /// Those of [`set_times`](Self::set_times).
    pub fn set_expiration(&mut self, expiration: f64) -> Result<(), ResourceError> {
        self.set_times(self.starttime.unwrap_or_default(), expiration)
    }

    /// The scheduler's own data, copied whole into every non-empty subset and never edited.
    #[must_use]
    pub fn scheduling(&self) -> Option<&Value> {
        self.scheduling.as_deref().filter(|_| !self.is_empty())
    }

    /// Sets the scheduler's own data.
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
    /// A name that no property can have (RFC 20), and ranks that the set lacks.
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

    /// Takes a property from ranks; ranks without it are no error.
    pub fn remove_property(&mut self, name: &str, ranks: &Idset) {
        let properties = &mut Arc::make_mut(&mut self.nodes).properties;
        if let Some(holders) = properties.get_mut(name) {
            *holders = holders.difference(ranks);
            if holders.is_empty() {
                properties.remove(name);
            }
        }
    }

    /// Drops the properties that are local to the instance, those with a leading `+`: a job's R
    /// doesn't show them.
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
        let entries: Vec<String> = self
            .map
            .groups()
            .into_iter()
            .map(|(ranks, children)| format!("rank{}/{}", ranks.brackets(), children.summary()))
            .collect();
        entries.join(" ")
    }

    pub(super) fn of_parts(map: RankMap, nodes: Nodes) -> Self {
        Self { map, nodes: Arc::new(nodes), ..Self::default() }
    }

    /// Other ranks of the same inventory, with the slots, times and scheduling of this set.
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

/// What one rank of a [`ResourceSet`] has.
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

    /// Whether the rank has a property. What follows `@` in a property's name is the scheduler's own
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

/// What no property's name may have, since constraints (RFC 31) and queries (RFC 35) need it.
pub(super) const RESERVED_IN_PROPERTIES: &str = "!&'\"^`|()";

/// Refuses what constraints couldn't name.
pub(super) fn check_property_name(name: &str) -> Result<(), ResourceError> {
    match name.chars().find(|c| RESERVED_IN_PROPERTIES.contains(*c)) {
        Some(character) => {
            Err(ResourceError::PropertyName { character, property: name.to_owned() })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::r;
    use super::*;

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
    fn a_subset_keeps_what_belongs_to_it() {
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
    fn times_that_make_no_sense_are_refused() {
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
    fn properties_are_of_ranks_in_the_set() {
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
    fn walks_ranks_in_order() {
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
}
