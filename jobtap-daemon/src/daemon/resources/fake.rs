//! `[fake-resources]`: nodes that don't exist, for trying a configuration, a policy or a program at a size for which
//! there is no hardware. Only simulated jobs can run on them.

use jobtap_core::plugin::ConfTable;
use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use serde::Deserialize;
use serde_json::Value;

use super::error::FakeFault;

const TABLE: &str = "fake-resources";
/// A larger cluster is most likely a mistake.
const MOST_NODES: u32 = 1_000_000;
/// So is a larger node.
const MOST_ON_NODE: u32 = 65_536;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Table {
    nnodes: u32,
    #[serde(default = "cores")]
    cores_per_node: u32,
    #[serde(default)]
    gpus_per_node: u32,
    #[serde(default = "prefix")]
    host_prefix: String,
    /// Known here, and refused by the list of all keys, which says what to do instead.
    #[serde(default, rename = "hwloc-xml-path")]
    _hwloc_xml_path: Value,
    #[serde(default, rename = "amend-r")]
    _amend_r: Value,
}

fn cores() -> u32 {
    64
}

fn prefix() -> String {
    "fake".to_owned()
}

/// The nodes that the configuration makes up; `None` without the table.
///
/// # Errors
/// A value that can't be used, with its key.
pub(super) fn set(config: &Value) -> Result<Option<ResourceSet>, FakeFault> {
    let Some(table) = config.get(TABLE) else { return Ok(None) };
    let table = Table::read(table).map_err(FakeFault::Table)?;
    let ranged = |key, value: u32, least: u32, most: u32| match value {
        value if (least..=most).contains(&value) => Ok(value),
        value => Err(FakeFault::Range { key, value, least, most }),
    };
    let nnodes = ranged("nnodes", table.nnodes, 1, MOST_NODES)?;
    let cores = ranged("cores-per-node", table.cores_per_node, 1, MOST_ON_NODE)?;
    let gpus = ranged("gpus-per-node", table.gpus_per_node, 0, MOST_ON_NODE)?;
    let names = match nnodes {
        1 => format!("{}0", table.host_prefix),
        _ => format!("{}[0-{}]", table.host_prefix, nnodes - 1),
    };
    let hosts: Hostlist = names.parse().map_err(|error| FakeFault::HostPrefix { names, error })?;
    let first = |count: u32| (0..count).collect::<Idset>();
    Ok(Some(ResourceSet::uniform(0, &hosts, Children::new(first(cores), first(gpus)))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::error::ResourceError;
    use super::*;

    fn read(table: Value) -> Result<Option<ResourceSet>, ResourceError> {
        Ok(set(&json!({ TABLE: table }))?)
    }

    #[test]
    fn a_table_makes_a_cluster_up() {
        let made = read(json!({"nnodes": 1000, "cores-per-node": 48})).unwrap().unwrap();
        assert_eq!((made.nnodes(), made.ncores(), made.ngpus()), (1000, 48_000, 0));
        assert_eq!(made.nodelist().to_string(), "fake[0-999]");
        let table = json!({"nnodes": 1, "gpus-per-node": 4, "host-prefix": "gpu"});
        let made = read(table).unwrap().unwrap();
        assert_eq!(made.summary(), "rank0/core[0-63],gpu[0-3]");
        assert_eq!(made.nodelist().to_string(), "gpu0");
        assert_eq!(set(&json!({})).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        for (table, text) in [
            (json!({}), "[fake-resources]: missing key \"nnodes\""),
            (json!({"nnodes": 0}), "[fake-resources]: nnodes: 0 is not from 1 to 1000000"),
            (json!({"nnodes": "4"}), "[fake-resources]: nnodes: invalid type"),
            (
                json!({"nnodes": 4, "cores-per-node": 0}),
                "[fake-resources]: cores-per-node: 0 is not from 1 to 65536",
            ),
            (
                json!({"nnodes": 4, "cores-per-nod": 1}),
                "[fake-resources]: unknown key \"cores-per-nod\"; did you mean \"cores-per-node\"?",
            ),
            (json!({"nnodes": 4, "host-prefix": "a["}), "[fake-resources]: host-prefix: a["),
        ] {
            let refused = read(table).unwrap_err().to_string();
            assert!(refused.contains(text), "{refused}");
        }
    }
}
