//! Which nodes a listing is about: `-i HOSTS|RANKS` and `-q QUEUE`.

use std::collections::BTreeMap;

use jobtap_core::resource::{Hostlist, Idset, ResourceSet};
use serde_json::{Value, json};

use crate::cli::message::CliError;
use crate::client::Client;

/// Options that choose nodes.
#[derive(Debug, clap::Args)]
pub(super) struct NodeArgs {
    /// Only these hosts or ranks
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    include: Option<String>,
    /// Only nodes of these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    queue: Option<String>,
}

impl NodeArgs {
    /// The ranks of `all` that are meant.
    pub(super) fn ranks(&self, all: &ResourceSet, queues: &Queues) -> Result<Idset, CliError> {
        let mut ranks = match &self.include {
            None => all.ranks(),
            Some(text) => included(text, all)?,
        };
        if let Some(names) = &self.queue {
            let mut wanted = Idset::new();
            for name in names.split(',') {
                let nodes = queues
                    .ranks(name, all)
                    .ok_or_else(|| CliError::failure(format!("{name}: no such queue")))?;
                wanted = wanted.union(&nodes);
            }
            ranks = ranks.intersection(&wanted);
        }
        Ok(ranks)
    }
}

/// Reads a text as ranks, else as hosts.
pub(super) fn included(text: &str, all: &ResourceSet) -> Result<Idset, CliError> {
    if let Ok(ranks) = text.parse::<Idset>() {
        return Ok(ranks.intersection(&all.ranks()));
    }
    let hosts: Hostlist = text
        .parse()
        .map_err(|_| CliError::failure(format!("-i: Invalid hostlist or idset: {text}")))?;
    Ok(all.ranks_on(&hosts))
}

/// The queues of the configuration, each with the properties that it requires.
#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<String, Vec<String>>);

impl Queues {
    /// Asks the manager. Who may not read the configuration sees no queues.
    pub(super) async fn fetch(client: &Client) -> Self {
        let config = client.rpc("config.get", json!({})).await.unwrap_or_default();
        let requires = |queue: &Value| {
            let requires = queue.get("requires").and_then(Value::as_array);
            requires.into_iter().flatten().filter_map(|p| p.as_str().map(str::to_owned)).collect()
        };
        let queues = config.get("queues").and_then(Value::as_object);
        let queues = queues.into_iter().flatten();
        Self(queues.map(|(name, queue)| (name.clone(), requires(queue))).collect())
    }

    fn ranks(&self, name: &str, all: &ResourceSet) -> Option<Idset> {
        let requires = self.0.get(name)?;
        let properties = all.properties();
        Some(requires.iter().fold(all.ranks(), |ranks, property| {
            ranks.intersection(properties.get(property).unwrap_or(&Idset::new()))
        }))
    }

    /// The queues that a node with these properties belongs to.
    pub(super) fn of(&self, properties: &[&str]) -> Vec<&str> {
        let belongs = |requires: &[String]| {
            requires.iter().all(|property| properties.contains(&property.as_str()))
        };
        let queues = self.0.iter().filter(|(_, requires)| belongs(requires));
        queues.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether a property only tells to which queue a node belongs.
    pub(super) fn requires(&self, property: &str) -> bool {
        self.0.values().flatten().any(|required| required == property)
    }
}
