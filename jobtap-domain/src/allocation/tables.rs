//! All tables `[[allocation]]` together: which rank belongs to which, and the resources that they add.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::TableError;
use super::table::Table;
use crate::resource::{Hostlist, Idset, ResourceError, ResourceSet};

/// The largest number of nodes of all tables.
const MOST_NODES: u32 = 1_000_000;

/// The tables of an elastic instance, in their order. An instance without tables is not elastic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables {
    list: Vec<Table>,
}

impl Tables {
    /// Reads the tables from the whole configuration of an instance.
    ///
    /// ```
    /// use jobtap_core::allocation::Tables;
    /// use serde_json::json;
    ///
    /// let config = json!({"allocation": [
    ///     {"name": "small", "engine": "slurm", "nodes": 2, "cores": 64, "max": 3},
    ///     {"engine": "flux", "cores": 8},
    /// ]});
    /// let tables = Tables::read(&config)?;
    /// let small = tables.get("small").unwrap();
    /// // Rank 0 is the manager's host.
    /// assert_eq!(small.ranks().to_string(), "1-6");
    /// assert_eq!(small.slot(1).to_string(), "3-4");
    /// assert_eq!(tables.of_rank(7).unwrap().name, "flux");
    ///
    /// let config = json!({"allocation": [{"engine": "slurm", "cores": 64, "nodes": 0}]});
    /// let error = Tables::read(&config).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "allocation[0].nodes: 0 is not in the range from 1 to 1000000"
    /// );
    /// # Ok::<(), jobtap_core::allocation::TableError>(())
    /// ```
    ///
    /// # Errors
    /// When a table can't be used; the error names the key.
    pub fn read(config: &Value) -> Result<Self, TableError> {
        let tables = match config.get("allocation") {
            None => return Ok(Self::default()),
            Some(tables) => tables.as_array().ok_or(TableError::NotTables)?,
        };
        let mut read = Self::default();
        let mut next_rank = 1u32;
        for (index, value) in tables.iter().enumerate() {
            let table = Table::read(index, next_rank, value)?;
            if let Some(other) = read.list.iter().position(|other| other.name == table.name) {
                let key = format!("allocation[{index}].name");
                return Err(TableError::SameName { key, name: table.name, other });
            }
            let nodes = u64::from(next_rank - 1) + u64::from(table.nodes) * u64::from(table.max);
            match u32::try_from(nodes).ok().filter(|nodes| *nodes <= MOST_NODES) {
                Some(nodes) => next_rank = nodes + 1,
                None => {
                    let key = format!("allocation[{index}]");
                    return Err(TableError::TooManyNodes { key, nodes, most: MOST_NODES });
                }
            }
            read.list.push(table);
        }
        Ok(read)
    }

    /// Whether there is no table, so that the instance is not elastic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The tables in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        self.list.iter()
    }

    /// The table of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.list.iter().find(|table| table.name == name)
    }

    /// The table to which a rank belongs.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Option<&Table> {
        self.list.iter().find(|table| table.ranks().contains(rank))
    }

    /// The ranks of all tables.
    #[must_use]
    pub fn ranks(&self) -> Idset {
        self.list.iter().fold(Idset::new(), |ranks, table| ranks.union(&table.ranks()))
    }

    /// The cores of all nodes of the tables.
    #[must_use]
    pub fn ncores(&self) -> usize {
        let cores = |table: &Table| table.ranks().len() * table.cores as usize;
        self.list.iter().map(cores).sum()
    }

    /// The resources of the instance: those of rank 0 in `own`, and those that the tables add. `hosts` has the names of the
    /// hosts that have joined, by rank; the others have [placeholders](Table::placeholder).
    ///
    /// # Errors
    /// A name can't be that of a host.
    pub fn resources(
        &self,
        own: &ResourceSet,
        hosts: &BTreeMap<u32, String>,
    ) -> Result<ResourceSet, ResourceError> {
        let mut resources = own.with_ranks(&Idset::from(0));
        for table in &self.list {
            let ranks = table.ranks();
            let names = table_hosts(table, &ranks, hosts)?;
            resources.union_with(&ResourceSet::uniform(table.first_rank, &names, table.children()));
            for property in &table.properties {
                resources.set_property(property, &ranks)?;
            }
        }
        Ok(resources)
    }
}

/// The hosts of a table's ranks.
fn table_hosts(
    table: &Table,
    ranks: &Idset,
    hosts: &BTreeMap<u32, String>,
) -> Result<Hostlist, ResourceError> {
    let mut names = Hostlist::new();
    for rank in ranks.iter() {
        let pushed = match hosts.get(&rank) {
            Some(host) => names.push(host),
            None => names.push(&table.placeholder(rank)),
        };
        let path = || format!("host of rank {rank}");
        pushed.map_err(|source| ResourceError::Hostlist { path: path(), source })?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(tables: Value) -> String {
        Tables::read(&json!({ "allocation": tables })).unwrap_err().to_string()
    }

    fn small() -> Value {
        json!({"name": "small", "engine": "slurm", "nodes": 2, "cores": 4, "gpus": 1, "max": 3,
               "properties": ["batch"]})
    }

    #[test]
    fn a_configuration_without_tables_is_not_elastic() {
        assert!(Tables::read(&json!({})).unwrap().is_empty());
        assert!(Tables::read(&json!({"allocation": []})).unwrap().is_empty());
    }

    #[test]
    fn what_a_table_does_not_say_has_a_default() {
        let config = json!({"allocation": [{"engine": "flux", "cores": 1}]});
        let tables = Tables::read(&config).unwrap();
        let table = tables.get("flux").unwrap();
        assert_eq!((table.nodes, table.min, table.max, table.backlog), (1, 0, 1, 1));
        assert_eq!((table.idle_time.as_secs(), table.time_limit), (300.0, None));
        assert_eq!((table.requests_per_hour, table.on_loss.word()), (60, "requeue"));
    }

    #[test]
    fn each_mistake_is_refused_with_its_key() {
        let with = |key: &str, value: Value| {
            let mut table = small();
            table[key] = value;
            error(json!([table]))
        };
        assert_eq!(
            error(json!({})),
            "allocation: must be an array of tables, each written as [[allocation]]"
        );
        assert_eq!(
            with("node", json!(1)),
            "allocation[0].node: there is no such key; did you mean nodes?"
        );
        assert_eq!(
            error(json!([{"engine": "slurm"}])),
            "allocation[0].cores: is missing: it says how many cores a node has"
        );
        assert!(error(json!([{"cores": 1}])).starts_with("allocation[0].engine: is missing"));
        assert!(
            with("engine", json!("pbs")).starts_with("allocation[0].engine: unknown variant `pbs`")
        );
        assert!(with("cores", json!("4")).starts_with("allocation[0].cores: invalid type: string"));
        assert_eq!(
            with("max", json!(0)),
            "allocation[0].max: 0 is not in the range from 1 to 1000000"
        );
        assert_eq!(with("min", json!(4)), "allocation[0].min: 4 is more than max, which is 3");
        assert_eq!(
            with("time-limit", json!("0")),
            "allocation[0].time-limit: must be a time above zero, such as \"4h\""
        );
        assert!(with("idle-time", json!("soon")).starts_with("allocation[0].idle-time: "));
        assert_eq!(
            with("core-hours-per-day", json!(-1)),
            "allocation[0].core-hours-per-day: must be a number above zero"
        );
        assert!(
            with("on-loss", json!("hope")).starts_with("allocation[0].on-loss: unknown variant")
        );
        assert!(
            with("name", json!("a b")).starts_with("allocation[0].name: \"a b\" can't be a name")
        );
        let mut dear = small();
        dear["time-limit"] = json!("24h");
        dear["core-hours-per-day"] = json!(100);
        assert_eq!(
            error(json!([dear])),
            "allocation[0].core-hours-per-day: 100 is less than the 192 core hours of one allocation, so that none could \
             be asked for"
        );
        let command = "allocation[0].command: belongs to engine = \"command\", and is needed there";
        assert_eq!(with("command", json!(["qsub"])), command);
        assert_eq!(with("engine", json!("command")), command);
        assert!(
            with("properties", json!(["a", "!b"])).starts_with("allocation[0].properties[1]: ")
        );
        assert_eq!(
            error(json!([small(), small()])),
            "allocation[1].name: allocation[0] is called \"small\" too: give each table a name of its own"
        );
        assert_eq!(
            error(json!([{"engine": "slurm", "cores": 1, "nodes": 1000, "max": 1001}])),
            "allocation[0]: with this table there are 1001000 nodes, and at most 1000000 are possible"
        );
    }

    #[test]
    fn joined_nodes_have_their_own_names_and_others_placeholders() {
        let tables = Tables::read(&json!({"allocation": [small()]})).unwrap();
        let own = ResourceSet::single_host("login", Idset::from(0..=1)).unwrap();
        let hosts = BTreeMap::from([(3, "n7".to_owned()), (4, "n9".to_owned())]);
        let resources = tables.resources(&own, &hosts).unwrap();
        assert_eq!(resources.nodelist().to_string(), "login,small-[0-1],n[7,9],small-[4-5]");
        assert_eq!((resources.ncores(), resources.ngpus()), (26, 6));
        assert_eq!(resources.properties()["batch"].to_string(), "1-6");
    }
}
