//! Compares the plugins of the new manager with those of the manifest.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::composition::Composition;
use super::error::BuildError;

/// The crate that every plugin needs.
const SDK: &str = "jobtap-core";

/// Refuses a binary with other plugins or schedulers than the manifest's, or another order.
pub(super) fn verify(binary: &Path, wanted: &Composition) -> Result<(), BuildError> {
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
    compare(&plugins, &schedulers, wanted).map_err(linked)
}

fn name_and_crate(plugin: &Value) -> Option<(&str, &str)> {
    Some((plugin.get("name")?.as_str()?, plugin.get("crate")?.as_str()?))
}

/// Compares linked plugins and schedulers, each with its crate, with those that are required and with the
/// crates of the manifest.
///
/// # Errors
/// A text that names what is missing, what isn't in the manifest, or both orders.
pub(super) fn compare(
    present: &[(&str, &str)],
    schedulers: &[(&str, &str)],
    wanted: &Composition,
) -> Result<(), String> {
    let required = &wanted.required;
    let plugins = ("plugin", present, required, "#[jobtap_plugin]");
    let schedulers = ("scheduler", schedulers, &wanted.schedulers, "scheduler!");
    for (what, present, required, by) in [plugins, schedulers] {
        let has = |name: &str| present.iter().any(|(other, _)| *other == name);
        if let Some(missing) = required.iter().find(|name| !has(name)) {
            return Err(format!(
                "{what} {missing:?} is in the manifest and is not linked: its crate must register it in its library with {by}; build again, or remove the crate from the manifest"
            ));
        }
        // The SDK has schedulers of its own.
        let asked = |owner: &str| owner == SDK || wanted.crate_info(owner).is_some();
        if let Some((name, owner)) = present.iter().find(|(_, owner)| !asked(owner)) {
            return Err(format!(
                "{what} {name:?} of crate {owner} is linked and is not in the manifest: another plugin depends on its crate; add the crate to the manifest, or remove the plugin that needs it"
            ));
        }
    }
    let order: Vec<&str> = present
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| required.iter().any(|other| other == name))
        .collect();
    if order == required.iter().map(String::as_str).collect::<Vec<_>>() {
        return Ok(());
    }
    Err(format!(
        "its plugins are called in the order {}, and not {}: build it again",
        order.join(", "),
        required.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::composition::tests::sample;
    use super::*;

    #[test]
    fn linked_plugins_are_those_of_the_manifest() {
        let mut wanted = sample("");
        wanted.required = vec!["a".into(), "b".into()];
        let told = |present: &[(&str, &str)], schedulers: &[(&str, &str)]| {
            compare(present, schedulers, &wanted).err()
        };
        let own = "deadline";
        let (both, one) = ([("a", own), ("made-by-macro", own), ("b", own)], [("shortest", own)]);
        assert_eq!(told(&both, &one), None);
        let text = told(&[("a", own)], &one).unwrap_or_default();
        assert!(text.starts_with("plugin \"b\" is in the manifest and is not linked"), "{text}");
        let text = told(&[("a", own), ("b", own), ("c", "other")], &one).unwrap_or_default();
        assert!(text.starts_with("plugin \"c\" of crate other is linked"), "{text}");
        let text = told(&[("b", own), ("a", own)], &one).unwrap_or_default();
        assert!(text.contains("in the order b, a, and not a, b"), "{text}");
        let text = told(&both, &[]).unwrap_or_default();
        assert!(text.starts_with("scheduler \"shortest\" is in the manifest"), "{text}");
        let text = told(&both, &[one[0], ("easy", SDK), ("longest", "other")]).unwrap_or_default();
        assert!(text.starts_with("scheduler \"longest\" of crate other is linked"), "{text}");
    }
}
