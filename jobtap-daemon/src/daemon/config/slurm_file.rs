//! Checks `jobtap.toml`, the configuration of plugins inside a real Slurm, before slurmctld reads it.
//!
//! That file has a table for each plugin, as a manager's configuration has, and the adapter's own table `[slurm]`.

use std::path::Path;

use jobtap_core::job::Fsd;
use jobtap_core::suggest::nearest;
use serde_json::{Map, Value, json};

use super::check::{self, Finding, loaded_by};
use super::place::Step;

/// The keys of `[slurm]`.
const KEYS: [&str; 1] = ["request-timeout"];

/// Returns everything that is wrong with the file, as far as this program can know it: the tables of plugins that are
/// not linked into it are named, and not checked. `directory` contains the file.
pub fn check(config: &Value, directory: Option<&Path>) -> Vec<Finding> {
    let Some(registry) = crate::linked::registry().ok() else {
        return Vec::new();
    };
    let linked: Vec<&str> = registry.plugins().map(|plugin| plugin.name).collect();
    let mut found = Vec::new();
    let tables = config.as_object().into_iter().flatten();
    for (name, _) in tables.filter(|(name, _)| !matches!(name.as_str(), "plugins" | "slurm")) {
        let meant = nearest(name, ["plugins", "slurm"]);
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let text = format!("{name}: inside Slurm, only [plugins.NAME] and [slurm] are read{meant}");
        found.push(Finding { is_warning: true, text, place: vec![Step::Key(name.clone())] });
    }
    found.extend(of_adapter(config.get("slurm")));
    let mut own = Map::new();
    for (name, table) in config.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        if linked.contains(&name.as_str()) {
            own.insert(name.clone(), table.clone());
            continue;
        }
        let meant = nearest(name, linked.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let text = format!(
            "[plugins.{name}]: this plugin isn't linked into this program, which can't check its table{meant}"
        );
        let place = vec![Step::Key("plugins".to_owned()), Step::Key(name.clone())];
        found.push(Finding { is_warning: true, text, place });
    }
    // A manager loads some plugins by itself, and the others by name. A file for Slurm has no list of them: it loads
    // those that it was built with.
    let by_itself = loaded_by(&json!({}));
    let others = own.keys().filter(|name| !by_itself.contains(name));
    let load: Vec<Value> = others.map(|name| json!({ "load": name })).collect();
    let config = json!({ "plugins": own, "job-manager": { "plugins": load } });
    found.extend(check::check(&config, directory));
    found
}

/// Returns what is wrong with `[slurm]`.
fn of_adapter(table: Option<&Value>) -> Vec<Finding> {
    let place = |key: &str| vec![Step::Key("slurm".to_owned()), Step::Key(key.to_owned())];
    let error = |text: String, place| Finding { is_warning: false, text, place };
    let keys = match table {
        None => return Vec::new(),
        Some(Value::Object(keys)) => keys,
        Some(_) => {
            let place = vec![Step::Key("slurm".to_owned())];
            return vec![error("[slurm] must be a table".to_owned(), place)];
        }
    };
    let mut found = Vec::new();
    for (key, value) in keys {
        if !KEYS.contains(&key.as_str()) {
            let meant = nearest(key, KEYS);
            let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            found.push(error(format!("[slurm]: unknown key {key}{meant}"), place(key)));
            continue;
        }
        let limit = serde_json::from_value::<Fsd>(value.clone());
        if !limit.is_ok_and(|limit| limit.as_secs() > 0.0 && !limit.is_infinite()) {
            let text = format!("[slurm]: {key} must be a duration longer than 0 and not infinite");
            found.push(error(text, place(key)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_of_tables_and_keys_are_found() {
        let config = json!({
            "plugin": {"limits": {}},
            "slurm": {"request-timout": "8s", "request-timeout": "0s"},
            "plugins": {"of-the-site": {"a": 1}},
        });
        let found = check(&config, None);
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        let wanted = [
            "plugin: inside Slurm, only [plugins.NAME] and [slurm] are read; did you mean plugins?",
            "[slurm]: unknown key request-timout; did you mean request-timeout?",
            "[slurm]: request-timeout must be a duration longer than 0 and not infinite",
        ];
        for text in wanted {
            assert!(texts.contains(&text), "{texts:?}");
        }
        assert!(
            texts.iter().any(|text| text.starts_with("[plugins.of-the-site]: this plugin isn't"))
        );
        assert_eq!(found.iter().filter(|finding| !finding.is_warning).count(), 2);
        assert!(check(&json!({"slurm": {"request-timeout": "5s"}}), None).is_empty());
    }
}
