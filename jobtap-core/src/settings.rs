//! Reads single keys of the manager's own configuration, so that every error names the key.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::suggest::nearest;

/// Reads the value of `key` from `config`, the whole configuration. `key` is a path of tables,
/// separated by periods. Returns `None` if the key is absent.
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
/// A message that names the key, if the value has another type or if a table of the path isn't a table.
pub fn setting<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, String> {
    let mut found = config;
    let mut passed = String::new();
    for part in key.split('.') {
        let next = match found {
            // The configuration is empty.
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

/// Flux's text about the keys `left` that a table doesn't have, with those of the `known` ones that were probably meant.
///
/// ```
/// use jobtap_core::settings::left_unpacked;
///
/// let known = ["requires", "policy", "parent"];
/// let text = left_unpacked(&["require", "colour"], known);
/// assert_eq!(text, "2 object item(s) left unpacked: require, colour; did you mean requires?");
/// assert_eq!(left_unpacked(&["colour"], known), "1 object item(s) left unpacked: colour");
/// ```
#[must_use]
pub fn left_unpacked<'a>(left: &[&str], known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let mut meant: Vec<&str> = Vec::new();
    for key in left.iter().filter_map(|key| nearest(key, known.iter().copied())) {
        if !meant.contains(&key) {
            meant.push(key);
        }
    }
    let text = format!("{} object item(s) left unpacked: {}", left.len(), left.join(", "));
    match meant.is_empty() {
        true => text,
        false => format!("{text}; did you mean {}?", meant.join(", ")),
    }
}
