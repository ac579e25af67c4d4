//! The tables `[policy]` and `[queues]` of the configuration.
//!
//! A table may not have unknown keys, and the messages are Flux's.

use super::fluxion;
use crate::job::{Fsd, FsdError};
use crate::json_type::json_type;
use crate::resource::Property;
use crate::settings::left_unpacked;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use std::str::FromStr;

/// The table `[queues.NAME]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Settings {
    /// The properties that nodes of the queue have. A virtual queue uses its parent's.
    pub(super) requires: Vec<String>,
    /// The parent of a virtual queue, whose nodes it shares.
    pub(super) parent: Option<String>,
    pub(super) policy: Policy,
}

/// `[policy]` and `[queues]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Config {
    pub(super) policy: Policy,
    /// By name, in the order of the configuration; empty if there are no named queues.
    pub(super) queues: IndexMap<String, Settings>,
}

impl Config {
    /// Reads both tables from the whole configuration of an instance.
    pub(super) fn read(config: &Value) -> Result<Self, QueueConfigError> {
        let policy = config.get("policy").map(|policy| Policy::read("", policy)).transpose()?;
        let policy = policy.unwrap_or_default();
        let mut queues = IndexMap::new();
        match config.get("queues") {
            None => {}
            Some(Value::Object(tables)) => {
                for (name, table) in tables {
                    if name.is_empty() {
                        let text = "a queue needs a name".to_owned();
                        return Err(QueueConfigError::Table { table: "queues".to_owned(), text });
                    }
                    queues.insert(name.clone(), Settings::read(name, table)?);
                }
            }
            Some(_) => {
                let text = "not a table".to_owned();
                return Err(QueueConfigError::Table { table: "queues".to_owned(), text });
            }
        }
        let mut read = Self { policy, queues };
        read.check_parents()?;
        fluxion::choose(&mut read, config)?;
        let config = read;
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

/// Whether a text is a property of RFC 31, possibly negated. Blanks are refused, as they end a term in
/// constraint queries.
fn is_property(text: &str) -> bool {
    !text.contains([' ', '\t']) && text.parse::<Property>().is_ok()
}

/// Why `[policy]` or `[queues]` is refused. The messages are Flux's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueConfigError {
    /// A table has a mistake.
    #[error("error parsing [{table}] config table: {text}")]
    Table {
        /// The full name of the table, such as `queues.batch.policy`.
        table: String,
        /// What is wrong there.
        text: String,
    },
    /// The default queue is not configured.
    #[error("the [policy] config table defines a default queue {0} that is not in [queues] table")]
    DefaultQueue(String),
}

/// A policy table, `[policy]` or `[queues.NAME.policy]`. Keys that a queue's table lacks are taken from
/// `[policy]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// `jobspec.defaults.system.duration`: the time limit of jobs without one.
    pub default_duration: Option<Fsd>,
    /// `jobspec.defaults.system.queue`: the queue of jobs that name none. Only allowed in `[policy]`.
    pub default_queue: Option<String>,
    /// `limits`.
    pub limits: Limits,
    /// `access`.
    pub access: AccessLists,
    /// `scheduler`: a table that the scheduler reads.
    pub scheduler: Option<Value>,
}

/// The lists of `access`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessLists {
    /// `allow-user`: names of users.
    pub users: Option<Vec<String>>,
    /// `allow-group`: names of groups.
    pub groups: Option<Vec<String>>,
}

/// Who may use a queue: every user, unless one of the lists is set.
///
/// ```
/// use jobtap_core::queue::Queues;
/// use serde_json::json;
///
/// let config = json!({"queues": {"chem": {"policy": {"access": {"allow-group": ["chem"]}}}}});
/// let queues = Queues::read(&config)?;
/// let access = queues.get("chem").expect("it is configured").access();
/// assert!(access.allows(Some("ada"), &["users".to_owned(), "chem".to_owned()]));
/// assert!(!access.allows(Some("bob"), &["users".to_owned()]));
/// # Ok::<(), jobtap_core::queue::QueueConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access<'a> {
    /// The names of users who may use it.
    pub users: Option<&'a [String]>,
    /// The names of groups whose members may use it.
    pub groups: Option<&'a [String]>,
}

impl<'a> Access<'a> {
    /// Takes each list from the first policy that has it.
    pub(super) fn from_policies(policies: &[&'a Policy]) -> Self {
        let users = policies.iter().find_map(|policy| policy.access.users.as_deref());
        let groups = policies.iter().find_map(|policy| policy.access.groups.as_deref());
        Self { users, groups }
    }

    /// Whether every user has access.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.users.is_none() && self.groups.is_none()
    }

    /// Whether the user of this name, who is in these groups, has access. A user whom the system doesn't know
    /// has no name.
    #[must_use]
    pub fn allows(&self, user: Option<&str>, groups: &[String]) -> bool {
        let has = |list: Option<&[String]>, name: &str| {
            list.is_some_and(|list| list.iter().any(|allowed| allowed == name))
        };
        self.is_open()
            || user.is_some_and(|user| has(self.users, user))
            || groups.iter().any(|group| has(self.groups, group))
    }
}

/// The limits on what jobs may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// The longest allowed time limit; zero means no limit.
    pub duration: Option<Fsd>,
    /// The largest allowed size.
    pub max: JobSize,
    /// The smallest allowed size.
    pub min: JobSize,
}

/// Limits of a job's size by kind of resource; -1 means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSize {
    /// Number of nodes.
    pub nnodes: Option<i64>,
    /// Number of cores.
    pub ncores: Option<i64>,
    /// Number of GPUs.
    pub ngpus: Option<i64>,
}

impl Limits {
    /// These limits; those that are unset are taken from `general`.
    #[must_use]
    pub fn or(self, general: Self) -> Self {
        Self {
            duration: self.duration.or(general.duration),
            max: self.max.or(general.max),
            min: self.min.or(general.min),
        }
    }
}

impl JobSize {
    fn or(self, general: Self) -> Self {
        Self {
            nnodes: self.nnodes.or(general.nnodes),
            ncores: self.ncores.or(general.ncores),
            ngpus: self.ngpus.or(general.ngpus),
        }
    }
}

impl Policy {
    /// Reads a policy table, where `prefix` precedes `policy` in the names of tables.
    fn read(prefix: &str, value: &Value) -> Result<Self, QueueConfigError> {
        let name = |table: &str| format!("{prefix}policy{table}");
        let keys = ["jobspec", "limits", "access", "scheduler"];
        let table = Table::read(name(""), value, &keys)?;
        let mut policy = Self { scheduler: table.get("scheduler").cloned(), ..Self::default() };
        if let Some(other) = policy.scheduler.as_ref().filter(|table| !table.is_object()) {
            let text = format!("'scheduler' must be a table, not {other}");
            return Err(table.refuse(text));
        }
        if let Some(jobspec) = table.inner("jobspec", name(".jobspec"), &["defaults"])? {
            policy.read_defaults(&jobspec)?;
        }
        if let Some(limits) = table.inner("limits", name(".limits"), &["duration", "job-size"])? {
            policy.limits = read_limits(&limits)?;
        }
        let keys = ["allow-user", "allow-group"];
        if let Some(access) = table.inner("access", name(".access"), &keys)? {
            let strings = |key| access.strings(key, &format!("'{key}' must be a string array"));
            policy.access =
                AccessLists { users: strings("allow-user")?, groups: strings("allow-group")? };
        }
        Ok(policy)
    }

    fn read_defaults(&mut self, jobspec: &Table<'_>) -> Result<(), QueueConfigError> {
        // As in Flux, messages about mistakes in any of these tables name the outer table.
        let name = &jobspec.name;
        let Some(defaults) = jobspec.inner("defaults", name, &["system"])? else {
            return Ok(());
        };
        let Some(system) = defaults.inner("system", name, &["duration", "queue"])? else {
            return Ok(());
        };
        let text = "'defaults.system.duration' is not a valid FSD";
        // An empty duration is refused here. Flux would start, and then refuse each job that has no time
        // limit.
        self.default_duration = read_fsd(&system, Fsd::from_str, text)?;
        self.default_queue = match system.get("queue") {
            None => None,
            Some(Value::String(queue)) => Some(queue.clone()),
            Some(_) => return Err(jobspec.refuse("'defaults.system.queue' is not a string")),
        };
        Ok(())
    }

    /// The scheduler's table: that of `general`, overridden by the keys of this policy.
    #[must_use]
    pub fn scheduler_over(&self, general: &Self) -> Value {
        match (&self.scheduler, &general.scheduler) {
            (Some(Value::Object(own)), Some(Value::Object(general))) => {
                let mut whole = general.clone();
                whole.extend(own.clone());
                Value::Object(whole)
            }
            (Some(own), _) => own.clone(),
            (None, Some(general)) => general.clone(),
            (None, None) => Value::Object(Map::new()),
        }
    }
}

fn read_fsd(
    table: &Table<'_>,
    parse: fn(&str) -> Result<Fsd, FsdError>,
    text: &str,
) -> Result<Option<Fsd>, QueueConfigError> {
    let Some(value) = table.get("duration") else { return Ok(None) };
    let fsd = value.as_str().and_then(|text| parse(text).ok());
    fsd.map(Some).ok_or_else(|| table.refuse(text))
}

fn read_limits(limits: &Table<'_>) -> Result<Limits, QueueConfigError> {
    let duration = read_fsd(limits, Fsd::from_config, "'duration' is not a valid FSD")?;
    let name = format!("{}.job-size", limits.name);
    let Some(sizes) = limits.inner("job-size", name, &["max", "min"])? else {
        return Ok(Limits { duration, ..Limits::default() });
    };
    let size = |key: &str| -> Result<JobSize, QueueConfigError> {
        let name = format!("{}.{key}", limits.name);
        let size = sizes.inner(key, name, &["nnodes", "ncores", "ngpus"])?;
        size.map_or(Ok(JobSize::default()), |size| read_size(&size))
    };
    Ok(Limits { duration, max: size("max")?, min: size("min")? })
}

fn read_size(table: &Table<'_>) -> Result<JobSize, QueueConfigError> {
    let number = |key: &str| {
        let Some(value) = table.get(key) else { return Ok(None) };
        match value.as_i64() {
            Some(number) if number >= -1 => Ok(Some(number)),
            Some(_) => Err(table.refuse("values must be >= -1")),
            None => Err(table.refuse(format!("Expected integer, got {}", json_type(value)))),
        }
    };
    Ok(JobSize { nnodes: number("nnodes")?, ncores: number("ncores")?, ngpus: number("ngpus")? })
}

/// A table of the configuration and its name in messages.
#[derive(Debug, Clone)]
struct Table<'a> {
    name: String,
    entries: &'a Map<String, Value>,
}

impl<'a> Table<'a> {
    /// Reads the table `name`, which may only have the given keys.
    fn read(
        name: impl Into<String>,
        value: &'a Value,
        keys: &[&str],
    ) -> Result<Self, QueueConfigError> {
        let name = name.into();
        let Value::Object(entries) = value else {
            let text = format!("Expected object, got {}", json_type(value));
            return Err(QueueConfigError::Table { table: name, text });
        };
        let table = Self { name, entries };
        let unknown = |key: &&String| !keys.contains(&key.as_str());
        let left: Vec<&str> = entries.keys().filter(unknown).map(String::as_str).collect();
        if left.is_empty() {
            return Ok(table);
        }
        Err(table.refuse(left_unpacked(&left, keys.iter().copied())))
    }

    /// The value of a key.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.entries.get(key)
    }

    /// The table at a key, which is named `name` in messages.
    fn inner(
        &self,
        key: &str,
        name: impl Into<String>,
        keys: &[&str],
    ) -> Result<Option<Table<'a>>, QueueConfigError> {
        self.get(key).map(|value| Table::read(name, value, keys)).transpose()
    }

    /// The list of strings at a key; `text` is the message if the value isn't one.
    fn strings(&self, key: &str, text: &str) -> Result<Option<Vec<String>>, QueueConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let item = |value: &Value| value.as_str().map(str::to_owned);
        let list = value.as_array().and_then(|list| list.iter().map(item).collect());
        list.map(Some).ok_or_else(|| self.refuse(text))
    }

    /// An error about a mistake in this table.
    fn refuse(&self, text: impl Into<String>) -> QueueConfigError {
        QueueConfigError::Table { table: self.name.clone(), text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The message for a configuration with a mistake.
    fn refusal(config: Value) -> String {
        Config::read(&config).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_duration_is_no_time_as_in_flux() {
        let config = Config::read(&json!({"policy": {"limits": {"duration": ""}}})).unwrap();
        assert_eq!(config.policy.limits.duration, Some(Fsd::from_config("0").unwrap()));
    }

    #[test]
    fn errors_of_queues_have_the_text_of_flux() {
        for (queues, table, text) in [
            (json!(5), "queues", "not a table"),
            // The name of the anonymous queue.
            (json!({"a": {}, "": {}}), "queues", "a queue needs a name"),
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
            (
                json!({"a": {"require": []}}),
                "queues.a",
                "1 object item(s) left unpacked: require; did you mean requires?",
            ),
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
    fn a_scheduler_is_a_table() {
        assert_eq!(
            refusal(json!({"policy": {"scheduler": "easy"}})),
            "error parsing [policy] config table: 'scheduler' must be a table, not \"easy\""
        );
    }

    #[test]
    fn errors_of_the_policy_name_the_table() {
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
