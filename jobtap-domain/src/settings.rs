//! Reads single keys of the manager's own configuration, so that every error names the key.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::suggest::nearest;

/// Why the value of a key can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A table on the way to the key is another value.
    #[error("{table}: must be a table, written once as [{table}], not {found}")]
    NoTable {
        /// The name of the table.
        table: String,
        /// What is there.
        found: Value,
    },
    /// The value has another type.
    #[error("{key}: {reason}")]
    Type {
        /// The key.
        key: String,
        /// The types that were found and expected.
        reason: serde_json::Error,
    },
}

/// Reads the value of `key` from `config`, the whole configuration. `key` is a path of tables,
/// separated by periods. Returns `None` if the key is absent.
///
/// ```
/// use jobtap_core::settings::setting;
/// use serde_json::json;
///
/// let config = json!({"log": {"ring-size": 100}, "audit": 7});
/// assert_eq!(setting::<u64>(&config, "log.ring-size")?, Some(100));
/// assert_eq!(setting::<u64>(&config, "access.private-mode")?, None);
/// let error = setting::<bool>(&config, "log.ring-size").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "log.ring-size: invalid type: integer `100`, expected a boolean"
/// );
/// let error = setting::<u64>(&config, "audit.max-events").unwrap_err();
/// assert_eq!(error.to_string(), "audit: must be a table, written once as [audit], not 7");
/// # Ok::<(), jobtap_core::settings::SettingError>(())
/// ```
///
/// # Errors
/// The value has another type, or a table of the path isn't a table.
pub fn setting<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, SettingError> {
    let mut found = config;
    let mut passed = String::new();
    for part in key.split('.') {
        let next = match found {
            // The configuration is empty.
            Value::Null if passed.is_empty() => None,
            Value::Object(table) => table.get(part),
            other => return Err(SettingError::NoTable { table: passed, found: other.clone() }),
        };
        let Some(value) = next else { return Ok(None) };
        found = value;
        if !passed.is_empty() {
            passed.push('.');
        }
        passed.push_str(part);
    }
    let wrong = |reason| SettingError::Type { key: key.to_owned(), reason };
    T::deserialize(found).map(Some).map_err(wrong)
}

/// Flux's error text for the unknown keys `left` of a table, with the `known` keys that were probably meant.
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
