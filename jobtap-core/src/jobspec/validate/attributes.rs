//! The `attributes` section: the types of what the manager, the listings and the executor read.

use serde_json::{Map, Value};

use super::{constraints, required};
use crate::job::Signal;
use crate::jobspec::JobspecError;
use crate::jobspec::error::Place;

pub(super) fn check(attributes: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    if attributes.get("user").is_some_and(|user| !user.is_object()) {
        return Err(at.key("user").must("a mapping"));
    }
    let at = at.key("system");
    let system = match attributes.get("system") {
        None => return Err(required_key(&at)),
        Some(Value::Object(system)) => system,
        Some(_) => return Err(at.must("a mapping")),
    };
    check_duration(system, &at)?;
    for key in ["queue", "cwd", "bank", "project"] {
        if system.get(key).is_some_and(|value| !value.is_string()) {
            return Err(at.key(key).must("a string"));
        }
    }
    check_members(system, "environment", &at, "a string or null", |value| {
        value.is_string() || value.is_null()
    })?;
    check_members(system, "job", &at, "a string", Value::is_string)?;
    check_members(system, "files", &at, "anything", |_| true)?;
    check_shell(system, &at)?;
    if let Some(dependencies) = system.get("dependencies") {
        check_dependencies(dependencies, &at.key("dependencies"))?;
    }
    match system.get("constraints") {
        Some(constraints) => constraints::check(constraints, &at.key("constraints")),
        None => Ok(()),
    }
}

fn check_duration(system: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let at_duration = at.key("duration");
    let duration = system.get("duration").ok_or_else(|| required_key(&at_duration))?;
    let duration = duration.as_f64().ok_or_else(|| at_duration.must("a number"))?;
    if duration < 0.0 {
        return Err(at_duration.says("duration must not be negative"));
    }
    if !duration.is_finite() {
        return Err(at_duration.says("duration must be a normal, finite value"));
    }
    match system.get("preemptible-after") {
        Some(after) if after.as_f64().is_none_or(|after| after < 0.0) => {
            Err(at.key("preemptible-after").must("a number >= 0"))
        }
        _ => Ok(()),
    }
}

/// Checks that a system attribute, if there, is an object whose members are all of one kind.
fn check_members(
    system: &Map<String, Value>,
    key: &str,
    at: &Place<'_>,
    be: &str,
    good: impl Fn(&Value) -> bool,
) -> Result<(), JobspecError> {
    let at = at.key(key);
    match system.get(key) {
        None => Ok(()),
        Some(Value::Object(members)) => match members.iter().find(|(_, value)| !good(value)) {
            Some((name, _)) => Err(at.key(name).must(be)),
            None => Ok(()),
        },
        Some(_) => Err(at.must("a mapping")),
    }
}

fn check_shell(system: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let Some(shell) = system.get("shell") else {
        return Ok(());
    };
    let at = at.key("shell");
    match shell {
        Value::Object(shell) => match shell.get("options") {
            None => Ok(()),
            Some(Value::Object(options)) => check_warning(options, &at.key("options")),
            Some(_) => Err(at.key("options").must("a mapping")),
        },
        _ => Err(at.must("a mapping")),
    }
}

/// A warning that can't be sent would only be missed at the end of the job.
fn check_warning(options: &Map<String, Value>, at: &Place<'_>) -> Result<(), JobspecError> {
    let signum = options.get("signal").and_then(|option| option.get("signum"));
    let unknown = |number: i64| Signal::from_number(number).is_none_or(Signal::is_real_time);
    if signum.and_then(Value::as_i64).is_some_and(unknown) {
        return Err(at.key("signal").key("signum").must("a signal from 1 to 31"));
    }
    Ok(())
}

fn check_dependencies(dependencies: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let entries = dependencies.as_array().ok_or_else(|| at.must("a list"))?;
    for (index, entry) in entries.iter().enumerate() {
        let at = at.index(index);
        let Value::Object(entry) = entry else {
            return Err(at.says("dependency must be a mapping"));
        };
        let [scheme, value] = required(entry, ["scheme", "value"], &at)?;
        if !scheme.is_string() {
            return Err(at.says("dependency scheme must be a string"));
        }
        if !value.is_string() {
            return Err(at.says("dependency value must be a string"));
        }
    }
    Ok(())
}

fn required_key(at: &Place<'_>) -> JobspecError {
    let path = at.to_string();
    JobspecError::Invalid { text: format!("{path} is a required key"), path }
}
