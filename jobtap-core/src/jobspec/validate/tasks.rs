//! The `tasks` section: one task, its command, its slot and how many of it are started.

use serde_json::{Map, Value};

use super::required;
use crate::jobspec::error::Place;
use crate::jobspec::{Counts, JobspecError};

/// Checks the section against the label of the one slot, and gives the task.
pub(super) fn check<'v>(
    tasks: &'v [Value],
    label: &str,
    at: &Place<'_>,
) -> Result<&'v Map<String, Value>, JobspecError> {
    let [task] = tasks else {
        return Err(at.must_have_one());
    };
    let at = at.index(0);
    let Value::Object(task) = task else {
        return Err(at.says("task must be a mapping"));
    };
    let [command, slot, count] = required(task, ["command", "slot", "count"], &at)?;
    match command {
        Value::Array(words) if words.is_empty() => {
            return Err(at.says("command array cannot have length of zero"));
        }
        Value::Array(words) if words.iter().all(Value::is_string) => {}
        _ => return Err(at.says("command must be a list of strings")),
    }
    match slot {
        Value::String(slot) if slot == label => {}
        Value::String(slot) => {
            let text = format!("slot '{slot}' is not the label of a slot in resources");
            return Err(at.refuse(text));
        }
        _ => return Err(at.says("slot must be a string")),
    }
    check_count(count, &at)?;
    Ok(task)
}

fn check_count(count: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let Value::Object(count) = count else {
        return Err(at.says("count must be a mapping"));
    };
    let mut members = count.iter();
    let (Some((key, value)), None) = (members.next(), members.next()) else {
        return Err(at.says("count must have exactly one key set"));
    };
    match (key.as_str(), value.as_u64()) {
        ("total", Some(1..)) | ("per_slot", Some(1)) => Ok(()),
        ("per_slot", Some(2..)) => Err(at.refuse("count per_slot must be 1")),
        ("total" | "per_slot", _) => Err(at.says(format!("count {key} must be > 0"))),
        ("per_resource", _) => Err(at.says("count per_slot or total must be set")),
        _ => Err(at.says("count per_slot, per_resource, or total must be set")),
    }
}

/// A node without a task is no use: RFC 25 wants at least one for each.
pub(super) fn check_total(
    task: &Map<String, Value>,
    counts: Counts,
    at: &Place<'_>,
) -> Result<(), JobspecError> {
    let total = task.get("count").and_then(|count| count.get("total")).and_then(Value::as_u64);
    match total {
        Some(total) if total < counts.nnodes => Err(at.index(0).refuse(format!(
            "count total must not be less than the number of nodes ({})",
            counts.nnodes
        ))),
        _ => Ok(()),
    }
}
