//! The selection of nodes by the options `-i HOSTS|RANKS` and `-q QUEUE`.

use jobtap_core::resource::{Constraint, Hostlist, Idset, ResourceSet};
use serde_json::{Value, json};

use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::config::Get;

/// The options that select nodes.
#[derive(Debug, clap::Args)]
pub(super) struct NodeArgs {
    /// Select only these hosts or ranks
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    include: Option<String>,
    /// Select only nodes of these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    queue: Option<String>,
}

impl NodeArgs {
    /// Returns true if the options name nodes.
    pub(super) fn includes(&self) -> bool {
        self.include.as_ref().is_some_and(|text| !text.is_empty())
    }

    /// The queues that the options name, in the order given.
    pub(super) fn queues(&self) -> Option<Vec<&str>> {
        self.queue.as_ref().map(|names| names.split(',').collect())
    }

    /// The selected ranks among those of `all`.
    pub(super) fn ranks(&self, all: &ResourceSet, queues: &Queues) -> Result<Idset, CliError> {
        let mut ranks = match &self.include {
            Some(text) if !text.is_empty() => included(text, all)?,
            _ => all.ranks(),
        };
        if let Some(names) = &self.queue {
            let mut wanted = Idset::new();
            for name in names.split(',') {
                let nodes = queues
                    .ranks(name, all)
                    .ok_or_else(|| CliError::failure(format!("--queue: {name}: no such queue")))?;
                wanted = wanted.union(&nodes);
            }
            ranks = ranks.intersection(&wanted);
        }
        Ok(ranks)
    }
}

/// Parses a text as ranks or, if it isn't an idset, as hosts. Returns those ranks that `all` contains.
pub(in crate::cli) fn included(text: &str, all: &ResourceSet) -> Result<Idset, CliError> {
    if let Ok(ranks) = text.parse::<Idset>() {
        return Ok(ranks.intersection(&all.ranks()));
    }
    let hosts: Hostlist = text
        .parse()
        .map_err(|_| CliError::failure(format!("--include: Invalid hostlist: '{text}'")))?;
    Ok(all.ranks_on(&hosts))
}

/// The queues of the configuration, in its order, with the properties that they require of nodes.
#[derive(Debug, Default)]
pub(in crate::cli) struct Queues(Vec<(String, Requirement)>);

/// Which nodes belong to a queue.
#[derive(Debug)]
struct Requirement {
    /// The properties that the nodes must have.
    properties: Vec<String>,
    /// The queue whose nodes these are, for a virtual queue.
    parent: Option<String>,
}

impl Queues {
    /// Requests the configuration from the manager. Guests may not read it: for them there are no queues.
    pub(in crate::cli) async fn fetch(client: &Client) -> Self {
        let config = client.call(Get {}).await.unwrap_or_default();
        Self::from_config(config.get("queues").unwrap_or(&Value::Null))
    }

    pub(super) fn from_config(tables: &Value) -> Self {
        // A virtual queue has the nodes of its parent.
        let parent = |queue: &Value| queue.get("parent").and_then(Value::as_str).map(str::to_owned);
        let requires = |queue: &Value| {
            let own_nodes = parent(queue).and_then(|name| tables.get(name)).unwrap_or(queue);
            let requires = own_nodes.get("requires").and_then(Value::as_array);
            requires.into_iter().flatten().filter_map(|p| p.as_str().map(str::to_owned)).collect()
        };
        let requirement =
            |queue: &Value| Requirement { properties: requires(queue), parent: parent(queue) };
        let queues = tables.as_object().into_iter().flatten();
        Self(queues.map(|(name, queue)| (name.clone(), requirement(queue))).collect())
    }

    fn find(&self, name: &str) -> Option<&Requirement> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, queue)| queue)
    }

    fn ranks(&self, name: &str, all: &ResourceSet) -> Option<Idset> {
        let required = &self.find(name)?.properties;
        let constraint = Constraint::from_value(&json!({ "properties": required })).ok()?;
        Some(all.matching(&constraint).ranks())
    }

    /// The queues to which a node with these properties belongs.
    pub(in crate::cli) fn for_properties(&self, properties: &[&str]) -> Vec<&str> {
        let has = |required: &str| match required.strip_prefix('^') {
            Some(unwanted) => !properties.contains(&unwanted),
            None => properties.contains(&required),
        };
        let belongs = |queue: &Requirement| queue.properties.iter().all(|required| has(required));
        let queues = self.0.iter().filter(|(_, queue)| belongs(queue));
        queues.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns true if there is a queue of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The queues that a listing names: those of the options, otherwise all but the hidden ones. A virtual queue has no
    /// nodes of its own, so its parent is named instead.
    pub(super) fn shown<'a>(&'a self, nodes: &'a NodeArgs, hidden: &[String]) -> Vec<&'a str> {
        let Some(asked) = nodes.queues() else {
            let own = self.0.iter().filter(|(_, queue)| queue.parent.is_none());
            return own
                .map(|(name, _)| name.as_str())
                .filter(|n| !hidden.iter().any(|h| h == n))
                .collect();
        };
        let mut shown = Vec::new();
        for name in asked {
            let name = self.find(name).and_then(|queue| queue.parent.as_deref()).unwrap_or(name);
            if !shown.contains(&name) {
                shown.push(name);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(queue: Option<&str>) -> NodeArgs {
        NodeArgs { include: None, queue: queue.map(str::to_owned) }
    }

    #[test]
    fn an_empty_option_selects_all_nodes() {
        let included = |text: &str| NodeArgs { include: Some(text.to_owned()), queue: None };
        assert!(included("0").includes() && !included("").includes());
    }

    #[test]
    fn a_virtual_queue_has_the_nodes_of_its_parent() {
        let queues = Queues::from_config(&json!({
            "batch": {"requires": ["big"]},
            "night": {"parent": "batch"},
            "rest": {"requires": ["^big"]},
        }));
        assert_eq!(queues.for_properties(&["big", "gpu"]), ["batch", "night"]);
        assert_eq!(queues.for_properties(&["gpu"]), ["rest"]);
        assert_eq!(queues.shown(&nodes(None), &[]), ["batch", "rest"]);
        assert_eq!(queues.shown(&nodes(Some("rest,night,batch")), &[]), ["rest", "batch"]);
    }

    #[test]
    fn a_hidden_queue_is_shown_to_those_who_ask_for_it() {
        let queues = Queues::from_config(&json!({"all": {}, "batch": {}}));
        let hidden = ["all".to_owned(), "none".to_owned()];
        assert_eq!(queues.shown(&nodes(None), &hidden), ["batch"]);
        assert_eq!(queues.shown(&nodes(Some("batch,all")), &hidden), ["batch", "all"]);
    }
}
