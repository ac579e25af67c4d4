//! The validation of a jobspec at submission: version 1 (RFC 25) only, with the messages of Flux's
//! validator. Unknown keys below `attributes.system` and `attributes.user`, and in vertices, are accepted, as in Flux,
//! because sites keep their own attributes there.

use super::error::Place;
use super::members::Members;
use super::{Counts, JobspecError};
use crate::job::Signal;
use crate::resource::{Constraint, ConstraintError, ConstraintFault};
use serde_json::{Map, Value};

const KEYS: [&str; 4] = ["resources", "tasks", "attributes", "version"];

/// Validates the document and returns the amounts that it asks for.
///
/// # Errors
/// Names the first mistake and its place.
pub(super) fn validate(jobspec: &Value) -> Result<Counts, JobspecError> {
    let root = Place::Root;
    let Value::Object(top) = jobspec else {
        return Err(root.error("jobspec must be a mapping"));
    };
    let [resources, tasks, attributes, version] = required(top, KEYS, &root)?;
    if let Some(extra) = top.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(root.error(format!("Extraneous key ({extra})")));
    }
    let resources_at = root.key("resources");
    let Value::Array(resources) = resources else {
        return Err(resources_at.must("a sequence"));
    };
    let tasks_at = root.key("tasks");
    let Value::Array(tasks) = tasks else {
        return Err(tasks_at.must("a sequence"));
    };
    let attributes_at = root.key("attributes");
    let Value::Object(attributes) = attributes else {
        return Err(attributes_at.must("a mapping"));
    };
    check_version(version, &root.key("version"))?;
    let label = check_resources(resources, &resources_at)?;
    let task = check_tasks(tasks, label, &tasks_at)?;
    check_attributes(attributes, &attributes_at)?;
    // Deriving the counts also checks that none of them overflows.
    let counts =
        Counts::from_jobspec(jobspec).map_err(|error| resources_at.refuse(error.text()))?;
    check_total(task, counts, &tasks_at)?;
    Ok(counts)
}

fn check_version(version: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    if !(version.is_i64() || version.is_u64()) {
        return Err(at.must("an integer"));
    }
    match version.as_u64() {
        Some(1) => Ok(()),
        Some(2..) => Err(at.must("1")),
        _ => Err(at.must(">= 1")),
    }
}

/// The values of keys that are all required.
fn required<'v, const N: usize>(
    object: &'v Map<String, Value>,
    keys: [&str; N],
    at: &Place<'_>,
) -> Result<[&'v Value; N], JobspecError> {
    if let Some(missing) = keys.iter().find(|key| !object.contains_key(**key)) {
        return Err(at.error(format!("Missing key ({missing})")));
    }
    Ok(keys.map(|key| object.member(key).unwrap_or(&Value::Null)))
}

const NO_CORE: &str = "a slot holds one core entry and at most one gpu entry";

/// Checks the `resources` section and returns the label of its one slot: first Flux's rules for all
/// vertices, then the few shapes that version 1 allows (`slot > core[, gpu]`, with or without a node
/// around it).
fn check_resources<'v>(resources: &'v [Value], at: &Place<'_>) -> Result<&'v str, JobspecError> {
    for (index, vertex) in resources.iter().enumerate() {
        check_vertex(vertex, &at.index(index))?;
    }
    let [vertex] = resources else {
        return Err(at.must_have_one());
    };
    let at = at.index(0);
    match kind(vertex) {
        "slot" => check_slot(vertex, &at),
        "node" => check_node(vertex, &at),
        other => Err(at.refuse(format!(
            "a jobspec of version 1 begins with a node or a slot, not with '{other}'"
        ))),
    }
}

impl Place<'_> {
    fn must_have_one(&self) -> JobspecError {
        let path = self.to_string();
        JobspecError::Invalid { text: format!("{path} must have exactly one entry"), path }
    }
}

fn check_node<'v>(node: &'v Value, at: &Place<'_>) -> Result<&'v str, JobspecError> {
    check_vertex_count(node, at)?;
    let at_with = at.key("with");
    match children(node) {
        [slot] if kind(slot) == "slot" => check_slot(slot, &at_with.index(0)),
        [other] => Err(at_with
            .index(0)
            .refuse(format!("a node holds exactly one slot, not '{}'", kind(other)))),
        _ => Err(at.refuse("a node holds exactly one slot")),
    }
}

fn check_slot<'v>(slot: &'v Value, at: &Place<'_>) -> Result<&'v str, JobspecError> {
    check_vertex_count(slot, at)?;
    let at_with = at.key("with");
    let (mut cores, mut gpus) = (0, 0);
    for (index, child) in children(slot).iter().enumerate() {
        let at = at_with.index(index);
        match kind(child) {
            "core" => cores += 1,
            "gpu" => gpus += 1,
            other => {
                let text = format!("a slot holds cores and gpus only, not '{other}'");
                return Err(at.refuse(text));
            }
        }
        check_vertex_count(child, &at)?;
        if !children(child).is_empty() {
            return Err(at.refuse(format!("nothing can be inside '{}'", kind(child))));
        }
    }
    if cores != 1 || gpus > 1 {
        return Err(at.refuse(NO_CORE));
    }
    Ok(slot.member("label").and_then(Value::as_str).unwrap_or_default())
}

/// Version 1 allows only numbers as counts.
fn check_vertex_count(vertex: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let got = match vertex.member("count") {
        Some(Value::String(_)) => "str",
        Some(Value::Object(_)) => "dict",
        _ => return Ok(()),
    };
    let kind = kind(vertex);
    Err(at.error(format!("resource count must be an integer for type '{kind}' (got '{got}')")))
}

/// Checks the rules for vertices of any type, and all vertices below this one.
fn check_vertex(vertex: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let Value::Object(vertex) = vertex else {
        return Err(at.error("resource must be a mapping"));
    };
    let kind = match vertex.member("type") {
        None => return Err(at.error("type is a required key for resources")),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(at.error("type must be a string")),
    };
    match vertex.member("count") {
        None => return Err(at.error("count is a required key for resources")),
        Some(Value::Number(count)) if !count.is_f64() => {
            let count = count.as_i64().unwrap_or(i64::MAX);
            if count < 1 && matches!(kind, "node" | "slot" | "core") {
                return Err(at.error("node, slot, or core count must be > 0"));
            }
            if count < 0 {
                return Err(at.error("count must be >= 0"));
            }
        }
        Some(Value::String(_) | Value::Object(_)) => {}
        Some(_) => return Err(at.error("count must be an int or mapping")),
    }
    check_vertex_members(vertex, at)?;
    if kind == "slot" && !vertex.contains_key("label") {
        return Err(at.error("slots must have labels"));
    }
    match vertex.member("with") {
        None => Ok(()),
        Some(Value::Array(with)) => {
            let at = at.key("with");
            with.iter().enumerate().try_for_each(|(i, child)| check_vertex(child, &at.index(i)))
        }
        Some(_) => Err(at.refuse("with must be a sequence")),
    }
}

fn check_vertex_members(vertex: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    if vertex.member("exclusive").is_some_and(|value| !value.is_boolean()) {
        return Err(at.error("exclusive must be a boolean"));
    }
    for key in ["id", "unit", "label"] {
        if vertex.member(key).is_some_and(|value| !value.is_string()) {
            return Err(at.error(format!("{key} must be a string")));
        }
    }
    Ok(())
}

fn kind(vertex: &Value) -> &str {
    vertex.member("type").and_then(Value::as_str).unwrap_or_default()
}

fn children(vertex: &Value) -> &[Value] {
    vertex.member("with").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Checks the `tasks` section against the label of the one slot, and returns the task.
fn check_tasks<'v>(
    tasks: &'v [Value],
    label: &str,
    at: &Place<'_>,
) -> Result<&'v Map<String, Value>, JobspecError> {
    let [task] = tasks else {
        return Err(at.must_have_one());
    };
    let at = at.index(0);
    let Value::Object(task) = task else {
        return Err(at.error("task must be a mapping"));
    };
    let [command, slot, count] = required(task, ["command", "slot", "count"], &at)?;
    match command {
        Value::Array(words) if words.is_empty() => {
            return Err(at.error("command array cannot have length of zero"));
        }
        Value::Array(words) if words.iter().all(Value::is_string) => {}
        _ => return Err(at.error("command must be a list of strings")),
    }
    match slot {
        Value::String(slot) if slot == label => {}
        Value::String(slot) => {
            let text = format!("slot '{slot}' is not the label of a slot in resources");
            return Err(at.refuse(text));
        }
        _ => return Err(at.error("slot must be a string")),
    }
    check_task_count(count, &at)?;
    Ok(task)
}

fn check_task_count(count: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let Value::Object(count) = count else {
        return Err(at.error("count must be a mapping"));
    };
    let mut members = count.iter();
    let (Some((key, value)), None) = (members.next(), members.next()) else {
        return Err(at.error("count must have exactly one key set"));
    };
    match (key.as_str(), value.as_u64()) {
        ("total", Some(1..)) | ("per_slot", Some(1)) => Ok(()),
        ("per_slot", Some(2..)) => Err(at.refuse("count per_slot must be 1")),
        ("total" | "per_slot", _) => Err(at.error(format!("count {key} must be > 0"))),
        ("per_resource", _) => Err(at.error("count per_slot or total must be set")),
        _ => Err(at.error("count per_slot, per_resource, or total must be set")),
    }
}

/// Checks that there is at least one task for each node (RFC 25).
fn check_total(
    task: &Map<String, Value>,
    counts: Counts,
    at: &Place<'_>,
) -> Result<(), JobspecError> {
    let total =
        task.member("count").and_then(|count| count.member("total")).and_then(Value::as_u64);
    match total {
        Some(total) if total < counts.nnodes => Err(at.index(0).refuse(format!(
            "count total must not be less than the number of nodes ({})",
            counts.nnodes
        ))),
        _ => Ok(()),
    }
}

fn check_attributes(attributes: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    if let Some(extra) = attributes.keys().find(|key| !["system", "user"].contains(&key.as_str())) {
        return Err(at.error(format!("Extraneous key ({extra})")));
    }
    if attributes.member("user").is_some_and(|user| !user.is_object()) {
        return Err(at.key("user").must("a mapping"));
    }
    let at = at.key("system");
    let system = match attributes.member("system") {
        None => return Err(required_key(&at)),
        Some(Value::Object(system)) => system,
        Some(_) => return Err(at.must("a mapping")),
    };
    check_duration(system, &at)?;
    for key in ["queue", "cwd", "bank", "project"] {
        if system.member(key).is_some_and(|value| !value.is_string()) {
            return Err(at.key(key).must("a string"));
        }
    }
    check_member_types(system, "environment", &at, "a string or null", |value| {
        value.is_string() || value.is_null()
    })?;
    check_member_types(system, "job", &at, "a string", Value::is_string)?;
    check_member_types(system, "files", &at, "anything", |_| true)?;
    check_shell(system, &at)?;
    if let Some(dependencies) = system.member("dependencies") {
        check_dependencies(dependencies, &at.key("dependencies"))?;
    }
    match system.member("constraints") {
        Some(constraints) => check_constraint(constraints, &at.key("constraints")),
        None => Ok(()),
    }
}

fn check_duration(system: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let at_duration = at.key("duration");
    let duration = system.member("duration").ok_or_else(|| required_key(&at_duration))?;
    let duration = duration.as_f64().ok_or_else(|| at_duration.must("a number"))?;
    if duration < 0.0 {
        return Err(at_duration.error("duration must not be negative"));
    }
    if !duration.is_finite() {
        return Err(at_duration.error("duration must be a normal, finite value"));
    }
    match system.member("preemptible-after") {
        Some(after) if after.as_f64().is_none_or(|after| after < 0.0) => {
            Err(at.key("preemptible-after").must("a number >= 0"))
        }
        _ => Ok(()),
    }
}

/// Checks that a system attribute, if present, is an object whose members all have the same type.
fn check_member_types(
    system: &Map<String, Value>,
    key: &str,
    at: &Place<'_>,
    be: &str,
    good: impl Fn(&Value) -> bool,
) -> Result<(), JobspecError> {
    let at = at.key(key);
    match system.member(key) {
        None => Ok(()),
        Some(Value::Object(members)) => match members.iter().find(|(_, value)| !good(value)) {
            Some((name, _)) => Err(at.key(name).must(be)),
            None => Ok(()),
        },
        Some(_) => Err(at.must("a mapping")),
    }
}

fn check_shell(system: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let Some(shell) = system.member("shell") else {
        return Ok(());
    };
    let at = at.key("shell");
    match shell {
        Value::Object(shell) => match shell.member("options") {
            None => Ok(()),
            Some(Value::Object(options)) => check_warning(options, &at.key("options")),
            Some(_) => Err(at.key("options").must("a mapping")),
        },
        _ => Err(at.must("a mapping")),
    }
}

/// Checks the signal that warns a job of its end, since a signal that can't be sent would be noticed
/// only at the end of the job.
fn check_warning(options: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let signum = options.member("signal").and_then(|option| option.member("signum"));
    let unknown = |number: i64| Signal::from_number(number).is_none();
    if signum.and_then(Value::as_i64).is_some_and(unknown) {
        return Err(at.key("signal").key("signum").must("a signal from 1 to 64"));
    }
    Ok(())
}

fn check_dependencies(dependencies: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let entries = dependencies.as_array().ok_or_else(|| at.must("a list"))?;
    for (index, entry) in entries.iter().enumerate() {
        let at = at.index(index);
        let Value::Object(entry) = entry else {
            return Err(at.error("dependency must be a mapping"));
        };
        let [scheme, value] = required(entry, ["scheme", "value"], &at)?;
        if !scheme.is_string() {
            return Err(at.error("dependency scheme must be a string"));
        }
        if !value.is_string() {
            return Err(at.error("dependency value must be a string"));
        }
    }
    Ok(())
}

fn required_key(at: &Place<'_>) -> JobspecError {
    let path = at.to_string();
    JobspecError::Invalid { text: format!("{path} is a required key"), path }
}

fn check_constraint(constraint: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    Constraint::from_value(constraint).map(drop).map_err(|error| {
        let dot = if error.path().is_empty() { "" } else { "." };
        let path = format!("{at}{dot}{}", error.path());
        JobspecError::Invalid { path, text: constraint_text(&error) }
    })
}

fn constraint_text(error: &ConstraintError) -> String {
    match error.fault() {
        ConstraintFault::Type => "constraints must be a mapping".to_owned(),
        ConstraintFault::Operator(operator) => format!("unknown constraint operator '{operator}'"),
        ConstraintFault::PropertyName { property }
        | ConstraintFault::PropertyCharacter { property, .. } => {
            format!("invalid character in property '{property}'")
        }
        ConstraintFault::Hostlist { source, .. } => {
            format!("host constraint contains invalid hosts: {source}")
        }
        fault => fault.to_string(),
    }
}

#[cfg(test)]
mod tests;
