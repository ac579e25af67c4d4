//! The check of a jobspec at submission: version 1 (RFC 25) and nothing else, refused in the words of
//! Flux's validator. What it doesn't know in `attributes` and in vertices it lets pass, as Flux does:
//! sites keep their own attributes there.

mod attributes;
mod constraints;
mod resources;
mod tasks;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::error::Place;
use super::{Counts, JobspecError};

const KEYS: [&str; 4] = ["resources", "tasks", "attributes", "version"];

/// Checks the document and gives what it asks for.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(super) fn validate(jobspec: &Value) -> Result<Counts, JobspecError> {
    let root = Place::Root;
    let Value::Object(top) = jobspec else {
        return Err(root.says("jobspec must be a mapping"));
    };
    let [resources, tasks, attributes, version] = required(top, KEYS, &root)?;
    if let Some(extra) = top.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(root.says(format!("Extraneous key ({extra})")));
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
    let label = resources::check(resources, &resources_at)?;
    let task = tasks::check(tasks, label, &tasks_at)?;
    attributes::check(attributes, &attributes_at)?;
    // The amounts go first: every number below them is known to be countable then.
    let counts = Counts::of(jobspec).map_err(|error| resources_at.refuse(error.text()))?;
    tasks::check_total(task, counts, &tasks_at)?;
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

/// The values of keys that must all be there.
fn required<'v, const N: usize>(
    object: &'v Map<String, Value>,
    keys: [&str; N],
    at: &Place<'_>,
) -> Result<[&'v Value; N], JobspecError> {
    if let Some(missing) = keys.iter().find(|key| !object.contains_key(**key)) {
        return Err(at.says(format!("Missing key ({missing})")));
    }
    Ok(keys.map(|key| object.get(key).unwrap_or(&Value::Null)))
}
