//! Starts the new manager, and compares its plugins with those of the manifest.

use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_daemon::composition::Composition;
use jobtap_daemon::linked::compare;
use serde_json::Value;

use crate::error::VerifyError;

/// Refuses a binary whose plugins, schedulers or order differ from the manifest's.
pub(crate) fn verify(binary: &Path, wanted: &Composition) -> Result<(), VerifyError> {
    let mut command = Command::new(binary);
    let command = command.args(["plugin", "available", "--json"]).stdin(Stdio::null());
    let output = command.output().map_err(VerifyError::NotStarted)?;
    let told = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| VerifyError::NoList(told()))?;
    let list = |key: &str| answer.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (plugins, schedulers) = (list("plugins"), list("schedulers"));
    let plugins: Vec<(&str, &str)> = plugins.iter().filter_map(name_and_crate).collect();
    let schedulers: Vec<(&str, &str)> = schedulers.iter().filter_map(name_and_crate).collect();
    Ok(compare(wanted, &plugins, &schedulers)?)
}

fn name_and_crate(plugin: &Value) -> Option<(&str, &str)> {
    Some((plugin.get("name")?.as_str()?, plugin.get("crate")?.as_str()?))
}
