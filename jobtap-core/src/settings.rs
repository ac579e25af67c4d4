//! Reads single keys of the manager's own tables, so that every refusal names the key.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The value of `key`, a path of tables with dots, in `config`, the whole configuration; `None` if nothing
/// is said, or null.
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
/// assert_eq!(text, "audit must be a table");
/// ```
///
/// # Errors
/// A value of another type, and a table on the way that is none, with the key.
pub fn setting<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, String> {
    let mut found = config;
    let mut passed: Vec<&str> = Vec::new();
    for part in key.split('.') {
        found = match found {
            Value::Null => return Ok(None),
            Value::Object(table) => table.get(part).unwrap_or(&Value::Null),
            _ if passed.is_empty() => return Err("the configuration must be a table".to_owned()),
            _ => return Err(format!("{} must be a table", passed.join("."))),
        };
        passed.push(part);
    }
    if found.is_null() {
        return Ok(None);
    }
    T::deserialize(found).map(Some).map_err(|error| format!("{key}: {error}"))
}
