//! The resources that this manager may allocate: those of `[[resource.config]]`, of a file with R or of
//! `[fake-resources]`, or the cores of this host.
//!
//! Hosts become ranks in the order in which they are first named. Only the entry of this host can be
//! checked; those of other hosts are not.

mod error;
mod fake;
mod verify;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::exec::nodes::NodeInfo;
use crate::files::input;
use jobtap_core::resource::{Children, Hostlist, HostlistError, Idset, ResourceSet};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use self::error::{EntryFault, FakeFault, FileFault, ResourceError};
use self::verify::Mode;

/// `start --test-size`: the number of ranks on this host.
#[derive(Debug, Clone, Default)]
pub struct TestSize {
    /// How many; `None` without the option.
    pub size: Option<u32>,
    /// The names of the ranks, a hostlist. Without the option all of them have this host's name.
    pub hosts: Option<String>,
}

/// The resources, and the ranks on which this host can run jobs.
#[derive(Debug)]
pub struct Inventory {
    /// All resources.
    pub resources: ResourceSet,
    /// The ranks that this host serves.
    pub local: Idset,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceTable {
    noverify: bool,
    norestrict: bool,
    verify: Option<Value>,
    path: Option<PathBuf>,
    config: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hosts: String,
    #[serde(default)]
    cores: Option<String>,
    #[serde(default)]
    gpus: Option<String>,
    #[serde(default)]
    properties: Vec<String>,
}

/// This host's name, as it is in R and in listings.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The resources of the nodes of an instance, which end at this time (UNIX seconds, 0: never). This host serves its own.
///
/// # Errors
/// A node has no core, or no name.
pub fn of_nodes(nodes: &[NodeInfo], end: f64) -> Result<Inventory, ResourceError> {
    let mut hosts = Hosts::default();
    for node in nodes {
        if node.cores.is_empty() {
            return Err(ResourceError::NoChildren(node.host.clone()));
        }
        hosts.names.push(node.host.clone());
        hosts.children.push(Children::new(node.cores.clone(), node.gpus.clone()));
    }
    let mut resources = hosts.build()?;
    resources.set_expiration(end)?;
    Ok(Inventory { resources, local: Idset::from(0..=0) })
}

/// Whether a manager that runs as a job uses the resources of that job: it does unless the configuration or
/// `--test-size` says which ones it has, or the configuration tells it to discover them.
pub fn takes_given(config: &Value, test: &TestSize) -> bool {
    let named = |pointer: &str| config.pointer(pointer).is_some();
    let rediscover = config.pointer("/resource/rediscover") == Some(&Value::Bool(true));
    let configured = ["/resource/config", "/resource/path", "/fake-resources"];
    test.size.is_none() && !rediscover && !configured.into_iter().any(named)
}

/// Returns the resources according to the configuration, this host and `--test-size`; or those that the manager was
/// `given` as a job, if it [takes them](takes_given).
///
/// # Errors
/// A malformed table, or one that gives this host cores that it does not have.
pub fn discover(
    config: &Value,
    test: &TestSize,
    given: Option<&ResourceSet>,
) -> Result<Inventory, ResourceError> {
    let table = config.get("resource").cloned().unwrap_or_else(|| json!({}));
    let table: ResourceTable = serde_json::from_value(table).map_err(ResourceError::Table)?;
    if let Some(given) = given.filter(|_| takes_given(config, test)) {
        let resources = renumbered(given)?;
        let local = resources.ranks();
        return Ok(Inventory { resources, local });
    }
    let here = hostname();
    let cores = available_cores(table.norestrict)?;
    let verify = Mode::read(table.verify.as_ref(), table.noverify)?;
    let resources = match (&table.config, &table.path, fake(config)?) {
        (_, _, Some(fake)) => fake,
        (None, None, None) => this_host(&here, cores, test)?,
        (None, Some(path), None) => {
            let resources = of_file(path)?;
            verify.unwrap_or(Mode::Ignore).check(&resources, &here, &cores)?;
            resources
        }
        // As in Flux, the configuration wins over the file.
        (Some(entries), _, None) => {
            let hosts = configured(entries)?;
            if hosts.names.is_empty() {
                this_host(&here, cores, test)?
            } else {
                let resources = hosts.build()?;
                verify.unwrap_or(Mode::AllowExtra).check(&resources, &here, &cores)?;
                resources
            }
        }
    };
    let local = local_ranks(&resources, &here, test);
    Ok(Inventory { resources, local })
}

/// The resources that the configuration names, whether or not this host has them. `None` if it names none.
///
/// # Errors
/// A malformed table, or an unusable file.
pub fn configured_set(config: &Value) -> Result<Option<ResourceSet>, ResourceError> {
    if let Some(fake) = fake(config)? {
        return Ok(Some(fake));
    }
    let key = |name| config.pointer("/resource").and_then(|table| table.get(name));
    match (key("config"), key("path").and_then(Value::as_str)) {
        (Some(entries), _) => configured(entries)?.build().map(Some),
        (None, Some(path)) => of_file(Path::new(path)).map(Some),
        (None, None) => Ok(None),
    }
}

/// Reads `resource.verify`, which a later start needs.
///
/// # Errors
/// A value that can't be used, with its key.
pub fn check_verify(config: &Value) -> Result<(), ResourceError> {
    Mode::read(config.pointer("/resource/verify"), false).map(drop)
}

/// Returns the nodes of `[fake-resources]`. With that table, no other key may say which resources there are.
fn fake(config: &Value) -> Result<Option<ResourceSet>, ResourceError> {
    let fake = fake::set(config)?;
    let other = ["config", "path"]
        .into_iter()
        .find(|key| config.get("resource").is_some_and(|table| table.get(key).is_some()));
    match (&fake, other) {
        (Some(_), Some(key)) => Err(FakeFault::OtherKey(key).into()),
        _ => Ok(fake),
    }
}

/// The resources in a file with R (RFC 20).
fn of_file(path: &Path) -> Result<ResourceSet, ResourceError> {
    let read = || -> Result<ResourceSet, FileFault> {
        let resources: ResourceSet = input::text(path)?.parse()?;
        match resources.is_empty() {
            true => Err(FileFault::Empty),
            false => Ok(resources),
        }
    };
    read().map_err(|fault| ResourceError::File { path: path.to_owned(), fault })
}

/// Returns the resources that another instance has given, with ranks that begin at 0.
fn renumbered(given: &ResourceSet) -> Result<ResourceSet, ResourceError> {
    let mut hosts = Hosts::default();
    for (rank, part) in (0u32..).zip(given.iter()) {
        hosts.names.push(part.host().unwrap_or_default());
        hosts.children.push(part.children().clone());
        for (name, holders) in given.properties() {
            if holders.contains(part.rank()) {
                hosts.properties.entry(name).or_default().insert(rank);
            }
        }
    }
    let mut resources = hosts.build()?;
    resources.set_expiration(given.expiration().unwrap_or(0.0))?;
    Ok(resources)
}

/// The ranks that this host serves: those with its name, and those of `--test-size`.
fn local_ranks(resources: &ResourceSet, here: &str, test: &TestSize) -> Idset {
    let mut ranks = here.parse().map(|name| resources.ranks_on(&name)).unwrap_or_default();
    if let Some(last) = test.size.and_then(|size| size.checked_sub(1)) {
        ranks.insert_range(0..=last);
    }
    ranks
}

/// This host's cores, once for each rank.
fn this_host(here: &str, cores: Idset, test: &TestSize) -> Result<ResourceSet, ResourceError> {
    let size = test.size.unwrap_or(1);
    let hosts = match &test.hosts {
        None => same_name(here, size)?,
        Some(text) => {
            let wrong = ResourceError::TestHosts;
            let hosts: Hostlist =
                text.parse().map_err(|_| wrong("could not decode --test-hosts hostlist"))?;
            if u32::try_from(hosts.len()) != Ok(size) {
                return Err(wrong("--test-hosts hostlist has incorrect size"));
            }
            hosts
        }
    };
    Ok(ResourceSet::uniform(0, &hosts, Children::new(cores, Idset::new())))
}

fn same_name(name: &str, count: u32) -> Result<Hostlist, HostlistError> {
    let mut hosts = Hostlist::new();
    for _ in 0..count {
        hosts.push(name)?;
    }
    Ok(hosts)
}

/// The configured hosts, in the order of their ranks.
#[derive(Debug, Default)]
struct Hosts {
    names: Vec<String>,
    children: Vec<Children>,
    properties: BTreeMap<String, Idset>,
    ranks: HashMap<String, usize>,
}

/// The hosts of all entries. Several entries may name the same host.
fn configured(entries: &Value) -> Result<Hosts, ResourceError> {
    let entries = entries.as_array().ok_or(ResourceError::NoArray)?;
    let mut hosts = Hosts::default();
    for (index, entry) in entries.iter().enumerate() {
        let added = hosts.add(entry);
        added.map_err(|fault| ResourceError::Entry { number: index + 1, fault })?;
    }
    if !entries.is_empty() && hosts.names.is_empty() {
        return Err(ResourceError::NoHosts);
    }
    let bare = hosts.children.iter().position(Children::is_empty);
    if let Some(name) = bare.and_then(|rank| hosts.names.get(rank)) {
        return Err(ResourceError::NoChildren(name.clone()));
    }
    Ok(hosts)
}

impl Hosts {
    fn add(&mut self, entry: &Value) -> Result<(), EntryFault> {
        let entry = Entry::deserialize(entry)?;
        let names: Result<Hostlist, _> = entry.hosts.parse();
        let names = names.map_err(|reason| EntryFault::Hosts { text: entry.hosts, reason })?;
        let ids = |key, text: Option<String>| match text {
            None => Ok(Idset::new()),
            Some(text) => text.parse().map_err(|reason| EntryFault::Ids { key, text, reason }),
        };
        let more = Children::new(ids("cores", entry.cores)?, ids("gpus", entry.gpus)?);
        let mut ranks = Idset::new();
        for name in names.iter() {
            let next = self.names.len();
            let rank = *self.ranks.entry(name).or_insert_with_key(|name| {
                self.names.push(name.clone());
                self.children.push(Children::default());
                next
            });
            if let Some(children) = self.children.get_mut(rank) {
                *children = children.union(&more);
            }
            ranks.insert(u32::try_from(rank).map_err(|_| EntryFault::TooManyHosts)?);
        }
        for property in &entry.properties {
            let holders = self.properties.entry(property.clone()).or_default();
            *holders = holders.union(&ranks);
        }
        Ok(())
    }

    /// Builds the set from R as text, which takes any number of hosts in one go.
    fn build(self) -> Result<ResourceSet, ResourceError> {
        let mut groups: Vec<(Children, Idset)> = Vec::new();
        let mut group_of: HashMap<Children, usize> = HashMap::default();
        for (rank, children) in (0u32..).zip(self.children) {
            let at = *group_of.entry(children).or_insert_with_key(|children| {
                groups.push((children.clone(), Idset::new()));
                groups.len() - 1
            });
            if let Some((_, ranks)) = groups.get_mut(at) {
                ranks.insert(rank);
            }
        }
        let mut nodes = Hostlist::new();
        for name in &self.names {
            nodes.push(name)?;
        }
        let lite: Vec<Value> = groups
            .iter()
            .map(|(children, ranks)| {
                let children: Map<String, Value> = children
                    .iter()
                    .map(|(kind, ids)| (kind.to_owned(), json!(ids.to_string())))
                    .collect();
                json!({ "rank": ranks.to_string(), "children": children })
            })
            .collect();
        let properties: Map<String, Value> = self
            .properties
            .iter()
            .map(|(name, ranks)| (name.clone(), json!(ranks.to_string())))
            .collect();
        let text = json!({
            "version": 1,
            "execution": {
                "R_lite": lite, "nodelist": [nodes.to_string()], "properties": properties,
                "starttime": 0.0, "expiration": 0.0,
            },
        });
        Ok(text.to_string().parse()?)
    }
}

/// Returns the cores that this process may use. In a container or a job, these may be a part of the host's. With
/// `norestrict`, returns all cores that are online.
pub fn available_cores(norestrict: bool) -> Result<Idset, ResourceError> {
    if norestrict {
        let file = "/sys/devices/system/cpu/online";
        let text = std::fs::read_to_string(file).map_err(ResourceError::Discovery)?;
        return text.trim().parse().map_err(|error| ResourceError::Online { file, error });
    }
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| ResourceError::Discovery(error.into()))?;
    let ids = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(ids.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(config: Value) -> Result<ResourceSet, ResourceError> {
        discover(&config, &TestSize::default(), None).map(|inventory| inventory.resources)
    }

    fn entries(entries: Value) -> Result<ResourceSet, ResourceError> {
        found(json!({"resource": {"config": entries}}))
    }

    #[test]
    fn entries_of_one_host_join_and_ranks_follow_the_first_naming() {
        let set = entries(json!([
            {"hosts": "b[2,1]", "cores": "0-3", "properties": ["fast"]},
            {"hosts": "a", "cores": "0-1"},
            {"hosts": "b1,a", "gpus": "0-1", "properties": ["gpu"]},
        ]))
        .unwrap();
        assert_eq!(set.nodelist().to_string(), "b[2,1],a");
        let summary = "rank0/core[0-3] rank1/core[0-3],gpu[0-1] rank2/core[0-1],gpu[0-1]";
        assert_eq!(set.summary(), summary);
        assert_eq!(set.properties()["fast"].to_string(), "0-1");
        assert_eq!(set.properties()["gpu"].to_string(), "1-2");
    }

    #[test]
    fn resources_of_a_file_are_used_and_a_missing_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("R");
        let with_file = || found(json!({"resource": {"path": file, "noverify": true}}));
        let refused = with_file().unwrap_err().to_string();
        assert!(refused.starts_with(&format!("resource.path: {}: ", file.display())), "{refused}");
        let hosts: Hostlist = "n[0-1]".parse().unwrap();
        let set = ResourceSet::uniform(0, &hosts, Children::new(Idset::from(0..=2), Idset::new()));
        std::fs::write(&file, set.to_json()).unwrap();
        assert_eq!(with_file().unwrap().summary(), "rank[0-1]/core[0-2]");
        let both = json!({"resource": {"path": file, "config": [{"hosts": "a", "cores": "0"}]}});
        assert_eq!(found(both).unwrap().nodelist().to_string(), "a");
        std::fs::write(&file, "{}").unwrap();
        assert!(with_file().unwrap_err().to_string().contains("version"));
        assert!(!takes_given(&json!({"resource": {"path": "x"}}), &TestSize::default()));
    }

    #[test]
    fn ten_thousand_hosts_stay_small() {
        let set = entries(json!([
            {"hosts": "n[0-9999]", "cores": "0-63"},
            {"hosts": "n[5000-9999]", "gpus": "0-3", "properties": ["gpu"]},
        ]))
        .unwrap();
        assert_eq!((set.nnodes(), set.ncores(), set.ngpus()), (10_000, 640_000, 20_000));
        assert!(set.to_json().len() < 400, "{}", set.to_json());
    }

    #[test]
    fn a_table_that_makes_no_sense_is_named() {
        for (config, text) in [
            (json!(7), "[resource]: resource config must be an array"),
            (json!([{"hosts": "", "cores": "0"}]), "[resource]: no hosts configured"),
            (json!([{"hosts": "x"}]), "[resource]: resource.config: x assigned no resources"),
            (json!([{"hosts": "x", "core": "0"}]), "[resource]: config entry 1: unknown field"),
            (json!([{"hosts": "x", "cores": "a"}]), "[resource]: config entry 1: cores = \"a\": "),
        ] {
            let error = entries(config).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn cores_that_this_host_lacks_are_refused_unless_unseen() {
        let config = |noverify: bool| {
            json!({"resource": {
                "noverify": noverify,
                "config": [{"hosts": hostname(), "cores": "100000"}],
            }})
        };
        assert!(found(config(false)).unwrap_err().to_string().contains("noverify"));
        assert_eq!(found(config(true)).unwrap().ncores(), 1);
    }

    #[test]
    fn made_up_nodes_are_the_resources() {
        let config = json!({"fake-resources": {"nnodes": 1000, "cores-per-node": 48}});
        assert_eq!(found(config.clone()).unwrap().ncores(), 48_000);
        assert_eq!(configured_set(&config).unwrap().unwrap().nnodes(), 1000);
        assert!(!takes_given(&config, &TestSize::default()));
        let both = json!({"fake-resources": {"nnodes": 1}, "resource": {"path": "x"}});
        assert!(found(both).unwrap_err().to_string().contains("resource.path says"));
    }

    #[test]
    fn nodes_have_what_they_have_said() {
        let node = |rank: u32, host: &str, cores: &str| NodeInfo {
            rank,
            host: host.to_owned(),
            cores: cores.parse().unwrap(),
            gpus: Idset::new(),
            program: "1".to_owned(),
            uri: None,
        };
        let found = of_nodes(&[node(0, "n1", "0-3"), node(1, "n2", "4-5")], 99.0).unwrap();
        assert_eq!(found.resources.summary(), "rank0/core[0-3] rank1/core[4-5]");
        assert_eq!(found.resources.nodelist().to_string(), "n[1-2]");
        assert_eq!(found.resources.expiration(), Some(99.0));
        let bare = of_nodes(&[node(0, "n1", "")], 0.0).unwrap_err();
        assert!(bare.to_string().contains("n1"), "{bare}");
    }

    #[test]
    fn a_test_size_makes_ranks_of_this_host() {
        let test = TestSize { size: Some(3), hosts: None };
        let found = discover(&json!({}), &test, None).unwrap();
        assert_eq!(found.resources.nnodes(), 3);
        assert_eq!(found.resources.host(2).unwrap(), hostname());
        assert_eq!(found.local.to_string(), "0-2");
        let test = TestSize { size: Some(2), hosts: Some("x[1-2]".into()) };
        let found = discover(&json!({}), &test, None).unwrap();
        assert_eq!(found.resources.nodelist().to_string(), "x[1-2]");
        let test = TestSize { size: Some(2), hosts: Some("x1".into()) };
        let error = discover(&json!({}), &test, None).unwrap_err();
        assert_eq!(error.to_string(), "--test-hosts hostlist has incorrect size");
    }

    #[test]
    fn a_manager_that_is_a_job_has_the_resources_of_the_job() {
        let node = Children::new(Idset::from(2..=3), Idset::new());
        let mut given = ResourceSet::uniform(5, &"n[5-6]".parse().unwrap(), node);
        given.set_property("fast", &Idset::from(6..=6)).unwrap();
        given.set_times(100.0, 900.0).unwrap();
        let discovered = |config, test: &TestSize| discover(&config, test, Some(&given)).unwrap();
        let own = discovered(json!({}), &TestSize::default());
        assert_eq!(own.resources.summary(), "rank[0-1]/core[2-3]");
        assert_eq!(own.resources.nodelist().to_string(), "n[5-6]");
        assert_eq!(own.resources.properties()["fast"].to_string(), "1");
        assert_eq!(own.resources.expiration(), Some(900.0));
        assert_eq!(own.local.to_string(), "0-1");
        let test = TestSize { size: Some(1), hosts: None };
        assert_eq!(discovered(json!({}), &test).resources.nodelist().to_string(), hostname());
        let again = json!({"resource": {"rediscover": true}});
        let again = discovered(again, &TestSize::default());
        assert_eq!(again.resources.nodelist().to_string(), hostname());
        let config = json!({"resource": {"config": [{"hosts": "x", "cores": "0"}]}});
        assert_eq!(discovered(config, &TestSize::default()).resources.summary(), "rank0/core0");
    }
}
