//! The changes in a new configuration that take effect only at the next start.

use serde_json::Value;

use super::{Content, Fate, TakesEffect, tables};

/// What it means that a new configuration doesn't have a key any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon::config) enum Missing {
    /// The key was removed from the files.
    Removed,
    /// Nothing: a client may load a part of a configuration.
    Unsaid,
}

/// Returns a line for each key that has changed and is read only at the start. `started` is the configuration at the
/// start: a key that has its value there again doesn't wait for a restart.
pub(in crate::daemon::config) fn waiting(
    before: &Value,
    after: &Value,
    started: &Value,
    missing: Missing,
) -> Vec<String> {
    let mut lines = Vec::new();
    for table in tables() {
        let Content::Keys(_, keys) = &table.content else { continue };
        let at_start =
            |fate: &Fate| matches!(fate, Fate::Served { takes_effect: TakesEffect::AtStart, .. });
        for key in keys.iter().filter(|key| at_start(&key.fate)) {
            let value = |config: &Value| {
                let pointer = format!("/{}/{}", table.name.replace('.', "/"), key.name);
                config.pointer(&pointer).cloned()
            };
            let told = missing == Missing::Removed || value(after).is_some();
            if told && value(before) != value(after) && value(after) != value(started) {
                lines.push(format!(
                    "{}.{} has changed, and takes effect when the manager restarts, as by `jobtap module reload job-manager`",
                    table.name, key.name
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_for_a_restart_is_named_key_by_key() {
        let before = json!({"resource": {"path": "a", "exclude": "0"}, "http": {"listen": "x"}});
        let after = json!({"resource": {"path": "b", "exclude": "1"}, "log": {"ring-size": 5}});
        let names = waiting(&before, &after, &before, Missing::Removed);
        let names: Vec<_> = names.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["resource.path", "http.listen", "log.ring-size"]);
        let loaded = waiting(&before, &after, &before, Missing::Unsaid);
        assert_eq!(loaded.len(), 2, "http.listen isn't said to be removed");
        assert!(waiting(&before, &before, &before, Missing::Removed).is_empty());
        let back = waiting(&after, &before, &before, Missing::Removed);
        assert!(back.is_empty(), "it is as it was at the start");
    }
}
