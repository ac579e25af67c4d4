//! The differences between two managers, by what they were made of.

use std::collections::{BTreeMap, BTreeSet};

use jobtap_daemon::composition::Composition;
use serde_json::Value;

use crate::manifest::{Manifest, Part};

/// Returns a line for each difference; none if both were made of the same things.
///
/// ```no_run
/// use jobtap_builder::{Composition, differences};
///
/// let old = Composition::of_binary("site-manager.old".as_ref())?;
/// let new = Composition::of_binary("site-manager".as_ref())?;
/// for line in differences(&old, &new) {
///     println!("{line}");
/// }
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
pub fn differences(old: &Composition, new: &Composition) -> Vec<String> {
    let mut lines = Vec::new();
    let facts = [
        ("name", &old.name, &new.name),
        ("version", &old.version, &new.version),
        ("target", &old.target, &new.target),
        ("profile", &old.profile, &new.profile),
        ("compiler", &old.rustc, &new.rustc),
        ("SDK", &old.sdk, &new.sdk),
    ];
    let changed = facts.iter().filter(|(_, old, new)| old != new);
    lines.extend(changed.map(|(what, old, new)| format!("{what}: {old} -> {new}")));
    if old.sdk == new.sdk && old.sdk_checksum != new.sdk_checksum {
        lines.push(format!("SDK: other sources of {}", new.sdk));
    }
    crates(old, new, &mut lines);
    let set = |names: &[String]| -> BTreeSet<String> { names.iter().cloned().collect() };
    let mut come_and_gone = |what: &str, old: &[String], new: &[String]| {
        let (before, after) = (set(old), set(new));
        lines.extend(before.difference(&after).map(|name| format!("- {what} {name}")));
        lines.extend(after.difference(&before).map(|name| format!("+ {what} {name}")));
    };
    come_and_gone("part", &parts(old), &parts(new));
    come_and_gone("plugin", &old.order, &new.order);
    come_and_gone("scheduler", &old.schedulers, &new.schedulers);
    let common = |composition: &Composition| -> Vec<String> {
        let both = |name: &&String| old.order.contains(*name) && new.order.contains(*name);
        composition.order.iter().filter(both).cloned().collect()
    };
    let (first, second) = (common(old), common(new));
    if first != second {
        lines.push(format!("order: {} -> {}", first.join(", "), second.join(", ")));
    }
    dependencies(old, new, &mut lines);
    settings("config", &old.config, &new.config, &mut lines);
    lines
}

/// The parts of a manager according to its manifest; all parts if the manifest is of a version that can't be
/// read here.
fn parts(composition: &Composition) -> Vec<String> {
    let manifest = Manifest::parse("", &composition.manifest).unwrap_or_default();
    let features = Part::features_without(&manifest.manager.without_parts);
    features.into_iter().map(str::to_owned).collect()
}

fn crates(old: &Composition, new: &Composition, lines: &mut Vec<String>) {
    for info in &old.crates {
        match new.crate_info(&info.name) {
            None => lines.push(format!("- crate {} {} ({})", info.name, info.version, info.source)),
            Some(other) if (&other.version, &other.source) != (&info.version, &info.source) => {
                lines.push(format!(
                    "crate {}: {} ({}) -> {} ({})",
                    info.name, info.version, info.source, other.version, other.source
                ))
            }
            // The SDK has a line already.
            Some(other) if other.checksum != info.checksum && info.source != "sdk" => {
                lines.push(format!("crate {}: other sources of {}", info.name, info.version));
            }
            Some(_) => {}
        }
    }
    let added = new.crates.iter().filter(|info| old.crate_info(&info.name).is_none());
    lines.extend(
        added.map(|info| format!("+ crate {} {} ({})", info.name, info.version, info.source)),
    );
}

/// Compares the indirect dependencies, which the bill of materials lists.
fn dependencies(old: &Composition, new: &Composition, lines: &mut Vec<String>) {
    let all = |composition: &Composition| {
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let components = composition.sbom.get("components").and_then(Value::as_array);
        for component in components.into_iter().flatten() {
            let text = |key: &str| component.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(name), Some(version)) = (text("name"), text("version")) {
                versions.entry(name).or_default().push(version);
            }
        }
        versions
    };
    let (before, after) = (all(old), all(new));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let told = |name: &str| old.crate_info(name).or(new.crate_info(name)).is_some();
    for name in names.into_iter().filter(|name| !told(name)) {
        match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) if old != new => {
                lines.push(format!("dependency {name}: {} -> {}", old.join(", "), new.join(", ")));
            }
            (Some(old), None) => lines.push(format!("- dependency {name} {}", old.join(", "))),
            (None, Some(new)) => lines.push(format!("+ dependency {name} {}", new.join(", "))),
            _ => {}
        }
    }
}

fn settings(place: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let of = |table: &serde_json::Map<String, Value>| {
                    table.get(key).cloned().unwrap_or(Value::Null)
                };
                settings(&format!("{place}.{key}"), &of(before), &of(after), lines);
            }
        }
        (old, new) if old == new => {}
        (Value::Null, new) => lines.push(format!("+ {place} = {new}")),
        (old, Value::Null) => lines.push(format!("- {place} = {old}")),
        (old, new) => lines.push(format!("{place}: {old} -> {new}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use jobtap_daemon::composition::CrateInfo;

    fn sample(manifest: &str) -> Composition {
        let deadline = CrateInfo {
            name: "deadline".into(),
            version: "0.1.0".into(),
            checksum: "11".into(),
            ..CrateInfo::default()
        };
        Composition {
            version: "1.0.0".into(),
            sdk: "0.1.0".into(),
            sdk_checksum: "00".into(),
            crates: vec![deadline],
            order: vec![".priority-default".into(), "deadline".into()],
            schedulers: vec!["shortest".into()],
            config: json!({"plugins": {"deadline": {"default": "2d"}}}),
            manifest: manifest.into(),
            ..Composition::default()
        }
    }

    #[test]
    fn equal_managers_have_no_differences() {
        assert!(differences(&sample("x"), &sample("y")).is_empty());
    }

    #[test]
    fn each_difference_has_its_line() {
        let (old, mut new) = (sample(""), sample("[manager]\nwithout-parts = [\"tools\"]\n"));
        new.version = "1.1.0".into();
        new.sdk_checksum = "01".into();
        new.crates[0].checksum = "22".into();
        new.order = vec!["deadline".into(), ".priority-default".into(), "limits".into()];
        new.schedulers.push("longest".into());
        new.config = json!({"plugins": {"deadline": {"default": "3d"}}, "queues": {"debug": {}}});
        new.sbom = json!({"components": [{"name": "serde", "version": "1.0.1"}]});
        let expected = [
            "version: 1.0.0 -> 1.1.0",
            "SDK: other sources of 0.1.0",
            "crate deadline: other sources of 0.1.0",
            "- part tools",
            "+ plugin limits",
            "+ scheduler longest",
            "order: .priority-default, deadline -> deadline, .priority-default",
            "+ dependency serde 1.0.1",
            "config.plugins.deadline.default: \"2d\" -> \"3d\"",
            "+ config.queues = {\"debug\":{}}",
        ];
        assert_eq!(differences(&old, &new), expected);
    }
}
