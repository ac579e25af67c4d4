//! The completions that a manager, or this program, knows. A manager that doesn't respond at once offers none, since
//! the shell is blocked while it waits for a completion.

use std::fs;
use std::time::Duration;

use jobtap_core::job::{Encoding, JobId, State, StateSet};
use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use crate::cli::common::ids::show_id;
use crate::cli::common::session;
use crate::client::Client;
use crate::linked;
use crate::rpc::service::Service;
use crate::rpc::services::job_list::{ALL, Constraint, Jobs as Listed, List};
use crate::rpc::services::{attr, config, plugin, queue, resource};
use crate::users;

/// The longest time that a completion may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of jobs that are offered.
const MOST_JOBS: i64 = 200;
/// The system's list of users.
const USERS: &str = "/etc/passwd";

/// The jobs that a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    Active,
    All,
}

/// The plugins that a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugins {
    Loaded,
    /// All that this program can load.
    Linked,
}

/// A value, and a description that some shells show beside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) text: String,
    pub(super) about: Option<String>,
}

impl From<String> for Known {
    fn from(text: String) -> Self {
        Self { text, about: None }
    }
}

/// The jobs of this user, the active ones first. Their ids are in the encoding that was typed so far.
pub(super) fn jobs(which: Jobs, typed: &str) -> Vec<Known> {
    let owner = Constraint::Userid(vec![rustix::process::getuid().as_raw()]);
    let active = u64::from(StateSet::ACTIVE.state_bits());
    let constraint = match which {
        Jobs::Active => Constraint::And(vec![owner, Constraint::States(vec![active])]),
        Jobs::All => owner,
    };
    let request = List {
        max_entries: Some(MOST_JOBS),
        constraint: Some(constraint.into()),
        attrs: ALL,
        arrays: true,
        since: None,
    };
    let Listed { jobs } = ask(request);
    jobs.iter().filter_map(|job| known_job(job, typed)).collect()
}

fn known_job(job: &Value, typed: &str) -> Option<Known> {
    let id = JobId::from(job["id"].as_u64()?);
    let text = match typed.chars().next() {
        Some('0') => id.encode(Encoding::Hex),
        Some('1'..='9') => id.encode(Encoding::Dec),
        Some('f') => id.encode(Encoding::F58Plain),
        Some('ƒ') => id.encode(Encoding::F58),
        _ => show_id(id),
    };
    let state = job["state"].as_u64().and_then(State::from_value).map_or("", State::long_name);
    let about = format!("{} {state}", job["name"].as_str().unwrap_or_default());
    Some(Known { text, about: Some(about.trim().to_owned()) })
}

/// Plugins by name.
pub(super) fn plugins(which: Plugins) -> Vec<Known> {
    match which {
        Plugins::Loaded => names(ask(plugin::Jobtap::default()).plugins),
        // Known without a manager, for the commands that build one.
        Plugins::Linked => linked::registry().map_or_else(
            |_| Vec::new(),
            |registry| registry.plugins().map(|plugin| plugin.name.to_owned().into()).collect(),
        ),
    }
}

/// The manager's queues.
pub(super) fn queues() -> Vec<Known> {
    names(ask(queue::List {}).queues)
}

/// The manager's hosts.
pub(super) fn hosts() -> Vec<Known> {
    let all = ask(resource::GetStatus {}).r;
    let all = serde_json::from_value::<ResourceSet>(all).unwrap_or_default();
    all.nodelist().iter().map(Known::from).collect()
}

/// The names of the manager's attributes.
pub(super) fn attributes() -> Vec<Known> {
    names(ask(attr::List {}).names)
}

/// The dotted names of all values of the manager's configuration.
pub(super) fn config_keys() -> Vec<Known> {
    let mut keys = Vec::new();
    dotted(&ask(config::Get {}), "", &mut keys);
    names(keys)
}

fn dotted(value: &Value, name: &str, keys: &mut Vec<String>) {
    let Some(table) = value.as_object() else {
        return keys.push(name.to_owned());
    };
    for (key, inner) in table {
        let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        dotted(inner, &name, keys);
    }
}

/// The users in this host's own list; that of a directory service may be too long.
pub(super) fn users() -> Vec<Known> {
    let text = fs::read_to_string(USERS).unwrap_or_default();
    names(users::names(&text))
}

fn names(names: Vec<String>) -> Vec<Known> {
    names.into_iter().map(Known::from).collect()
}

/// The manager's response, or an empty one.
fn ask<S: Service>(request: S) -> S::Response
where
    S::Response: Default,
{
    let asked = session::block_on(async {
        let call = async { Ok(Client::connect().await?.call(request).await?) };
        tokio::time::timeout(PATIENCE, call).await.unwrap_or_else(|_| Ok(S::Response::default()))
    });
    asked.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_in_the_encoding_that_was_typed() {
        let job = json!({"id": 6_731_191_091_817_518_u64, "name": "sleep", "state": 16});
        let text = |typed: &str| known_job(&job, typed).unwrap().text;
        assert_eq!(text("f"), "fuZZybuNNy");
        assert_eq!(text("6"), "6731191091817518");
        assert_eq!(text("0"), "0x17e9fb8df16c2e");
        assert_eq!(text("ƒ"), "ƒuZZybuNNy");
        assert_eq!(known_job(&job, "f").unwrap().about.unwrap(), "sleep RUN");
        assert_eq!(known_job(&json!({"id": "x"}), ""), None);
    }

    #[test]
    fn keys_of_the_configuration_are_dotted() {
        let mut keys = Vec::new();
        dotted(&json!({"a": {"b": 1, "c": {"d": []}}, "e": true}), "", &mut keys);
        assert_eq!(keys, ["a.b", "a.c.d", "e"]);
    }
}
