//! The `resources` section: what Flux's validator says of any vertex, then the few shapes that
//! version 1 allows (`slot > core[, gpu]`, with or without a node around it).

use serde_json::{Map, Value};

use crate::jobspec::JobspecError;
use crate::jobspec::error::Place;

const NO_CORE: &str = "a slot holds one core entry and at most one gpu entry";

/// Checks the section and gives the label of its one slot.
pub(super) fn check<'v>(resources: &'v [Value], at: &Place<'_>) -> Result<&'v str, JobspecError> {
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
    pub(super) fn must_have_one(&self) -> JobspecError {
        let path = self.to_string();
        JobspecError::Invalid { text: format!("{path} must have exactly one entry"), path }
    }
}

fn check_node<'v>(node: &'v Value, at: &Place<'_>) -> Result<&'v str, JobspecError> {
    check_count(node, at)?;
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
    check_count(slot, at)?;
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
        check_count(child, &at)?;
        if !children(child).is_empty() {
            return Err(at.refuse(format!("nothing can be inside '{}'", kind(child))));
        }
    }
    if cores != 1 || gpus > 1 {
        return Err(at.refuse(NO_CORE));
    }
    Ok(slot.get("label").and_then(Value::as_str).unwrap_or_default())
}

/// Version 1 knows plain counts only.
fn check_count(vertex: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let got = match vertex.get("count") {
        Some(Value::String(_)) => "str",
        Some(Value::Object(_)) => "dict",
        _ => return Ok(()),
    };
    let kind = kind(vertex);
    Err(at.says(format!("resource count must be an integer for type '{kind}' (got '{got}')")))
}

/// The rules that hold for a vertex of any type, and for all below it.
fn check_vertex(vertex: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let Value::Object(vertex) = vertex else {
        return Err(at.says("resource must be a mapping"));
    };
    let kind = match vertex.get("type") {
        None => return Err(at.says("type is a required key for resources")),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(at.says("type must be a string")),
    };
    match vertex.get("count") {
        None => return Err(at.says("count is a required key for resources")),
        Some(Value::Number(count)) if !count.is_f64() => {
            let count = count.as_i64().unwrap_or(i64::MAX);
            if count < 1 && matches!(kind, "node" | "slot" | "core") {
                return Err(at.says("node, slot, or core count must be > 0"));
            }
            if count < 0 {
                return Err(at.says("count must be >= 0"));
            }
        }
        Some(Value::String(_) | Value::Object(_)) => {}
        Some(_) => return Err(at.says("count must be an int or mapping")),
    }
    check_members(vertex, at)?;
    if kind == "slot" && !vertex.contains_key("label") {
        return Err(at.says("slots must have labels"));
    }
    match vertex.get("with") {
        None => Ok(()),
        Some(Value::Array(with)) => {
            let at = at.key("with");
            with.iter().enumerate().try_for_each(|(i, child)| check_vertex(child, &at.index(i)))
        }
        Some(_) => Err(at.refuse("with must be a sequence")),
    }
}

fn check_members(vertex: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    if vertex.get("exclusive").is_some_and(|value| !value.is_boolean()) {
        return Err(at.says("exclusive must be a boolean"));
    }
    for key in ["id", "unit", "label"] {
        if vertex.get(key).is_some_and(|value| !value.is_string()) {
            return Err(at.says(format!("{key} must be a string")));
        }
    }
    Ok(())
}

fn kind(vertex: &Value) -> &str {
    vertex.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn children(vertex: &Value) -> &[Value] {
    vertex.get("with").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
