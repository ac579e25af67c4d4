//! What this manager may hand out: the cores of this host, or what `[[resource.config]]` says.

use std::collections::BTreeSet;

use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use serde::Deserialize;
use serde_json::{Value, json};

/// Why the resources are unusable.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// The table's form is wrong.
    #[error("[resource]: {0}")]
    Config(String),
    /// A configured host is not this one.
    #[error(
        "[[resource.config]]: host {host} has no executor: this manager runs jobs on {here} alone"
    )]
    ForeignHost {
        /// The configured host.
        host: String,
        /// This host.
        here: String,
    },
    /// The configured cores are not there.
    #[error(
        "[[resource.config]]: {host} has the cores {have}, not {want} (noverify = true accepts them unseen)"
    )]
    Missing {
        /// The host.
        host: String,
        /// Cores found.
        have: String,
        /// Cores configured.
        want: String,
    },
    /// The system doesn't tell.
    #[error("can't find out this host's cores: {0}")]
    Discovery(std::io::Error),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceTable {
    noverify: bool,
    config: Vec<Entry>,
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

/// One host's part of the set.
#[derive(Debug, Default)]
struct Host {
    cores: Idset,
    gpus: Idset,
}

/// This host's name, as R and the listings show it.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The set that the instance configuration and this host give.
pub fn discover(config: &Value) -> Result<ResourceSet, ResourceError> {
    let table = config.get("resource").cloned().unwrap_or_else(|| json!({}));
    let table: ResourceTable =
        serde_json::from_value(table).map_err(|error| ResourceError::Config(error.to_string()))?;
    let here = hostname();
    let available = available_cores()?;
    if table.config.is_empty() {
        return build(&here, Host { cores: available, gpus: Idset::default() }, &BTreeSet::new());
    }
    let (host, properties) = configured(&table, &here)?;
    if !table.noverify && !host.cores.is_subset(&available) {
        return Err(ResourceError::Missing {
            host: here,
            have: available.to_string(),
            want: host.cores.to_string(),
        });
    }
    build(&here, host, &properties)
}

/// All entries together; a host may be named by several of them.
fn configured(
    table: &ResourceTable,
    here: &str,
) -> Result<(Host, BTreeSet<String>), ResourceError> {
    let config = |what: String| ResourceError::Config(what);
    let mut host = Host::default();
    let mut properties = BTreeSet::new();
    for entry in &table.config {
        let names: Hostlist = entry
            .hosts
            .parse()
            .map_err(|error| config(format!("hosts = \"{}\": {error}", entry.hosts)))?;
        if let Some(other) = names.iter().find(|name| name != here) {
            return Err(ResourceError::ForeignHost { host: other, here: here.into() });
        }
        for (ids, into, key) in
            [(&entry.cores, &mut host.cores, "cores"), (&entry.gpus, &mut host.gpus, "gpus")]
        {
            let Some(text) = ids else { continue };
            let ids: Idset =
                text.parse().map_err(|error| config(format!("{key} = \"{text}\": {error}")))?;
            *into = into.union(&ids);
        }
        properties.extend(entry.properties.iter().cloned());
    }
    if host.cores.is_empty() {
        return Err(config("no cores are configured for this host".into()));
    }
    Ok((host, properties))
}

fn build(
    name: &str,
    host: Host,
    properties: &BTreeSet<String>,
) -> Result<ResourceSet, ResourceError> {
    let config = |error: &dyn std::fmt::Display| ResourceError::Config(error.to_string());
    let hosts: Hostlist = name.parse().map_err(|error| config(&error))?;
    let mut children = Children::default();
    children.insert("core", host.cores);
    if !host.gpus.is_empty() {
        children.insert("gpu", host.gpus);
    }
    let mut set = ResourceSet::uniform(0, &hosts, children);
    for property in properties {
        set.set_property(property, &Idset::from_iter([0])).map_err(|error| config(&error))?;
    }
    Ok(set)
}

/// The cores that this process may use; a container or a batch system may have given it a part only.
fn available_cores() -> Result<Idset, ResourceError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| ResourceError::Discovery(error.into()))?;
    let ids = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(ids.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}
