//! Reads single keys of the manager's own tables, so that every refusal names the key.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The value of `key`, a path of tables with dots, in `config`, the whole configuration; `None` if nothing
/// is said.
///
/// ```
/// use jobtap_core::settings::setting;
/// use serde_json::json;
///
/// let config = json!({"log": {"ring-size": 100}, "audit": 7});
/// assert_eq!(setting::<u64>(&config, "log.ring-size"), Ok(Some(100)));
/// assert_eq!(setting::<u64>(&config, "access.private-mode"), Ok(None));
/// let text = setting::<bool>(&config, "log.ring-size").unwrap_err();
/// assert_eq!(text, "log.ring-size: invalid type: integer `100`, expected a boolean");
/// let text = setting::<u64>(&config, "audit.max-events").unwrap_err();
/// assert_eq!(text, "audit: must be a table, written once as [audit], not 7");
/// ```
///
/// # Errors
/// A value of another type, and a table on the way that is none, with the key.
pub fn setting<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, String> {
    let mut found = config;
    let mut passed = String::new();
    for part in key.split('.') {
        let next = match found {
            // There is no configuration at all.
            Value::Null if passed.is_empty() => None,
            Value::Object(table) => table.get(part),
            other => {
                let text = format!("must be a table, written once as [{passed}], not {other}");
                return Err(format!("{passed}: {text}"));
            }
        };
        let Some(value) = next else { return Ok(None) };
        found = value;
        if !passed.is_empty() {
            passed.push('.');
        }
        passed.push_str(part);
    }
    T::deserialize(found).map(Some).map_err(|error| format!("{key}: {error}"))
}
