//! What the test kit adds to the configuration of a test.

use serde_json::{Map, Value, json};

use crate::host::{Load, PluginDescriptor};

/// `config` with simulated execution for every user, and with an entry of `[job-manager] plugins` for each of
/// `plugins` that would not be loaded otherwise. What the test configures itself takes precedence.
pub(crate) fn with_kit_defaults(
    config: &Value,
    plugins: impl Iterator<Item = &'static PluginDescriptor>,
) -> Value {
    let mut config = config.clone();
    // A test is about what plugins do with jobs, not about who may simulate them.
    if let Some(testexec) = table(&mut config, "exec").and_then(|exec| table_in(exec, "testexec")) {
        testexec.entry("allow-guests").or_insert(Value::Bool(true));
    }
    let missing: Vec<Value> = plugins
        .filter(|plugin| match plugin.load {
            Load::Auto => plugin.only_plans() && config.get("allocation").is_none(),
            Load::Last => false,
            Load::Configured => !has_table(&config, plugin.name),
            Load::ByName => true,
        })
        .filter(|plugin| !is_named(&config, plugin.name))
        .map(|plugin| json!({"load": plugin.name}))
        .collect();
    if !missing.is_empty()
        && let Some(manager) = table(&mut config, "job-manager")
        && let Value::Array(entries) = manager.entry("plugins").or_insert_with(|| json!([]))
    {
        entries.extend(missing);
    }
    config
}

/// The table of this name, which is created if it is missing; `None` if something else has the name, which
/// the manager refuses.
fn table<'a>(config: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    table_in(config.as_object_mut()?, name)
}

fn table_in<'a>(
    config: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    config.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

fn has_table(config: &Value, plugin: &str) -> bool {
    ["plugins", "job-manager"]
        .iter()
        .any(|of| config.get(of).is_some_and(|of| of.get(plugin).is_some()))
}

/// Whether an entry of `[job-manager] plugins` loads or removes the plugin by its name.
fn is_named(config: &Value, plugin: &str) -> bool {
    let entries = config.pointer("/job-manager/plugins").and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        ["load", "remove"].iter().any(|what| {
            let name = entry.get(what).and_then(Value::as_str);
            name.is_some_and(|name| name.strip_suffix(".so").unwrap_or(name) == plugin)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_configures_itself_is_not_changed() {
        let config = json!({"exec": {"testexec": {"allow-guests": false}}});
        assert_eq!(with_kit_defaults(&config, std::iter::empty()), config);
        let refused_later = json!({"exec": 3});
        assert_eq!(with_kit_defaults(&refused_later, std::iter::empty()), refused_later);
    }
}
