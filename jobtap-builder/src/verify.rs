//! Starts the new manager, and compares its plugins with those of the manifest.

use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_daemon::composition::Composition;
use jobtap_daemon::linked::compare;
use serde_json::Value;

use crate::error::BuildError;

/// Refuses a binary whose plugins, schedulers or order differ from the manifest's.
pub(crate) fn verify(binary: &Path, wanted: &Composition) -> Result<(), BuildError> {
    let linked = |text: String| BuildError::Linked(format!("the new manager: {text}"));
    let mut command = Command::new(binary);
    let command = command.args(["plugin", "available", "--json"]).stdin(Stdio::null());
    let output =
        command.output().map_err(|error| linked(format!("it can't be started: {error}")))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| linked(format!("it doesn't list its plugins: {}", told.trim())))?;
    let list = |key: &str| answer.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (plugins, schedulers) = (list("plugins"), list("schedulers"));
    let plugins: Vec<(&str, &str)> = plugins.iter().filter_map(name_and_crate).collect();
    let schedulers: Vec<(&str, &str)> = schedulers.iter().filter_map(name_and_crate).collect();
    let compared = compare(wanted, &plugins, &schedulers);
    compared.map_err(|difference| linked(difference.to_string()))
}

fn name_and_crate(plugin: &Value) -> Option<(&str, &str)> {
    Some((plugin.get("name")?.as_str()?, plugin.get("crate")?.as_str()?))
}
