//! The tables `[queues.NAME]`, each by itself and all of them together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::QueueConfigError;
use super::policy::Policy;
use super::table::Table;
use crate::resource::Property;

/// What the configuration says of a queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Settings {
    /// Properties that its nodes have. Those of a virtual queue are its parent's.
    pub(super) requires: Vec<String>,
    /// The queue whose nodes it shares, which makes it a virtual one.
    pub(super) parent: Option<String>,
    pub(super) policy: Policy,
}

/// `[policy]` and `[queues]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Config {
    pub(super) policy: Policy,
    /// By name; empty without named queues.
    pub(super) queues: BTreeMap<String, Settings>,
}

impl Config {
    /// Reads both tables of an instance's configuration, as a whole.
    pub(super) fn read(config: &Value) -> Result<Self, QueueConfigError> {
        let policy = config.get("policy").map(|policy| Policy::read("", policy)).transpose()?;
        let policy = policy.unwrap_or_default();
        let mut queues = BTreeMap::new();
        match config.get("queues") {
            None => {}
            Some(Value::Object(tables)) => {
                for (name, table) in tables {
                    queues.insert(name.clone(), Settings::read(name, table)?);
                }
            }
            Some(_) => {
                let text = "not a table".to_owned();
                return Err(QueueConfigError::Table { table: "queues".to_owned(), text });
            }
        }
        let config = Self { policy, queues };
        config.check_parents()?;
        match &config.policy.default_queue {
            Some(queue) if !config.queues.contains_key(queue) => {
                Err(QueueConfigError::DefaultQueue(queue.clone()))
            }
            _ => Ok(config),
        }
    }

    fn check_parents(&self) -> Result<(), QueueConfigError> {
        for (name, settings) in &self.queues {
            let Some(parent) = &settings.parent else { continue };
            let text = match self.queues.get(parent) {
                _ if parent == name => "parent queue is itself".to_owned(),
                None => format!("parent queue '{parent}' is not configured"),
                Some(above) if above.parent.is_some() => {
                    format!("parent queue '{parent}' is itself a virtual queue")
                }
                Some(_) => continue,
            };
            return Err(QueueConfigError::Table { table: format!("queues.{name}"), text });
        }
        Ok(())
    }
}

impl Settings {
    fn read(name: &str, value: &Value) -> Result<Self, QueueConfigError> {
        let place = format!("queues.{name}");
        let table = Table::read(&place, value, &["requires", "policy", "parent"])?;
        let parent = match table.get("parent") {
            None => None,
            Some(Value::String(parent)) => Some(parent.clone()),
            Some(_) => return Err(table.refuse("'parent' must be a string")),
        };
        let policy = table.get("policy").map(|policy| Policy::read(&format!("{place}."), policy));
        let policy = policy.transpose()?.unwrap_or_default();
        if policy.default_queue.is_some() {
            return Err(table.refuse("'policy' must not define a default queue!"));
        }
        if parent.is_some() && policy.scheduler.is_some() {
            return Err(table.refuse("a virtual queue must not set 'policy.scheduler'"));
        }
        if parent.is_some() && table.get("requires").is_some() {
            return Err(table.refuse("a virtual queue must not set 'requires'"));
        }
        let text = "'requires' must be an array of property strings (RFC 20)";
        let requires = table.strings("requires", text)?.unwrap_or_default();
        if !requires.iter().all(|property| is_property(property)) {
            return Err(table.refuse(text));
        }
        Ok(Self { requires, parent, policy })
    }
}

/// A property as RFC 31 names it, wanted or unwanted, which a blank would end in a query.
fn is_property(text: &str) -> bool {
    !text.contains([' ', '\t']) && text.parse::<Property>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of a mistake.
    fn refusal(config: Value) -> String {
        Config::read(&config).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_in_queues_are_told_in_the_words_that_flux_users_know() {
        for (queues, table, text) in [
            (json!(5), "queues", "not a table"),
            (json!({"a": {"parent": 5}}), "queues.a", "'parent' must be a string"),
            (json!({"a": {"parent": "a"}}), "queues.a", "parent queue is itself"),
            (json!({"a": {"parent": "b"}}), "queues.a", "parent queue 'b' is not configured"),
            (
                json!({"a": {"parent": "b"}, "b": {"parent": "c"}, "c": {}}),
                "queues.a",
                "parent queue 'b' is itself a virtual queue",
            ),
            (
                json!({"a": {"parent": "b", "requires": []}, "b": {}}),
                "queues.a",
                "a virtual queue must not set 'requires'",
            ),
            (
                json!({"a": {"parent": "b", "policy": {"scheduler": {}}}, "b": {}}),
                "queues.a",
                "a virtual queue must not set 'policy.scheduler'",
            ),
            (
                json!({"a": {"policy": {"jobspec": {"defaults": {"system": {"queue": "a"}}}}}}),
                "queues.a",
                "'policy' must not define a default queue!",
            ),
            (
                json!({"a": {"policy": {"limits": {"duration": "long"}}}}),
                "queues.a.policy.limits",
                "'duration' is not a valid FSD",
            ),
            (json!({"a": {"require": []}}), "queues.a", "1 object item(s) left unpacked: require"),
        ] {
            let expected = format!("error parsing [{table}] config table: {text}");
            assert_eq!(refusal(json!({ "queues": queues })), expected);
        }
        for wrong in [json!("gpu"), json!([5]), json!(["a b"]), json!(["a&b"])] {
            let text = refusal(json!({"queues": {"a": {"requires": wrong}}}));
            assert!(text.ends_with("'requires' must be an array of property strings (RFC 20)"));
        }
    }

    #[test]
    fn mistakes_in_the_policy_name_the_table() {
        let system = |key: &str, value: Value| json!({"defaults": {"system": {key: value}}});
        for (policy, table, text) in [
            (
                json!({"jobspec": system("duration", json!("x"))}),
                "policy.jobspec",
                "'defaults.system.duration' is not a valid FSD",
            ),
            (
                json!({"jobspec": system("queue", json!(5))}),
                "policy.jobspec",
                "'defaults.system.queue' is not a string",
            ),
            (
                json!({"limits": {"job-size": {"max": {"nnodes": -2}}}}),
                "policy.limits.max",
                "values must be >= -1",
            ),
            (
                json!({"access": {"allow-user": "me"}}),
                "policy.access",
                "'allow-user' must be a string array",
            ),
            (
                json!({"access": {"allow-group": [5]}}),
                "policy.access",
                "'allow-group' must be a string array",
            ),
        ] {
            let expected = format!("error parsing [{table}] config table: {text}");
            assert_eq!(refusal(json!({ "policy": policy })), expected);
        }
        let text = refusal(json!({"policy": {"jobspec": system("queue", json!("x"))}}));
        let expected =
            "the [policy] config table defines a default queue x that is not in [queues] table";
        assert_eq!(text, expected);
    }
}
