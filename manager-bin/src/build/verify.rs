//! Asks the new manager which plugins it has, and compares.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::error::BuildError;

/// Refuses a binary that has other plugins than were asked for, or another order.
pub(super) fn verify(
    binary: &Path,
    required: &[String],
    crates: &[String],
) -> Result<(), BuildError> {
    let linked = |text: String| BuildError::Linked(format!("the new manager: {text}"));
    let mut command = Command::new(binary);
    let command = command.args(["plugin", "available", "--json"]).stdin(Stdio::null());
    let output =
        command.output().map_err(|error| linked(format!("it can't be started: {error}")))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| linked(format!("it does not tell its plugins: {}", told.trim())))?;
    let plugins = answer.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
    let present: Vec<(&str, &str)> = plugins.iter().filter_map(name_and_crate).collect();
    compare(&present, required, crates).map_err(linked)
}

fn name_and_crate(plugin: &Value) -> Option<(&str, &str)> {
    Some((plugin.get("name")?.as_str()?, plugin.get("crate")?.as_str()?))
}

/// Compares linked plugins, each with its crate, with those that are required and the crates that were
/// asked for.
///
/// # Errors
/// What is missing, what nobody asked for, or both orders.
pub(super) fn compare(
    present: &[(&str, &str)],
    required: &[String],
    crates: &[String],
) -> Result<(), String> {
    let has = |name: &str| present.iter().any(|(other, _)| *other == name);
    if let Some(missing) = required.iter().find(|name| !has(name)) {
        return Err(format!(
            "plugin {missing:?} was asked for and is not linked: its crate must register it in its library with #[jobtap_plugin]; build again, or take the crate out of the manifest"
        ));
    }
    let wanted = |owner: &str| crates.iter().any(|name| name == owner);
    if let Some((name, owner)) = present.iter().find(|(_, owner)| !wanted(owner)) {
        return Err(format!(
            "plugin {name:?} of crate {owner} is linked and nobody asked for it: another plugin depends on its crate; add the crate to the manifest, or take out what needs it"
        ));
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
    use super::*;

    #[test]
    fn what_is_linked_is_what_was_asked_for() {
        let required = ["a".to_owned(), "b".to_owned()];
        let crates = ["one".to_owned()];
        let told = |present: &[(&str, &str)]| compare(present, &required, &crates).err();
        assert_eq!(told(&[("a", "one"), ("made-by-macro", "one"), ("b", "one")]), None);
        let text = told(&[("a", "one")]).unwrap_or_default();
        assert!(text.starts_with("plugin \"b\" was asked for and is not linked"), "{text}");
        let text = told(&[("a", "one"), ("b", "one"), ("c", "other")]).unwrap_or_default();
        assert!(text.starts_with("plugin \"c\" of crate other is linked"), "{text}");
        let text = told(&[("b", "one"), ("a", "one")]).unwrap_or_default();
        assert!(text.contains("in the order b, a, and not a, b"), "{text}");
    }
}
