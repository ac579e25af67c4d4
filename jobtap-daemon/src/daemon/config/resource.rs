//! The table `[resource]`: the keys it may have, and their types. As in Flux, an unknown key is an error: a misspelled
//! one could let jobs run on nodes that were to be left out.

use jobtap_core::json_type;
use jobtap_core::settings::left_unpacked;
use serde_json::Value;

use crate::daemon::resources::{self, ResourceError};

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Flag,
    Integer,
    /// Any type: the value is checked where it is read.
    Other,
}

/// The keys, including those of Flux that have no effect here.
const KEYS: [(&str, Kind); 12] = [
    ("config", Kind::Other),
    ("exclude", Kind::Text),
    ("history", Kind::Text),
    ("journal-max", Kind::Integer),
    ("maintenance", Kind::Other),
    ("no-update-watch", Kind::Flag),
    ("norestrict", Kind::Flag),
    ("noverify", Kind::Flag),
    ("path", Kind::Text),
    ("rediscover", Kind::Flag),
    ("scheduling", Kind::Text),
    ("verify", Kind::Other),
];

impl Kind {
    /// Returns the name of this kind if `value` is of another one.
    fn missed_by(self, value: &Value) -> Option<&'static str> {
        match self {
            Self::Text if !value.is_string() => Some("string"),
            Self::Flag if !value.is_boolean() => Some("true or false"),
            Self::Integer if !value.is_i64() && !value.is_u64() => Some("integer"),
            _ => None,
        }
    }
}

/// Why the table can't be used. The texts are Flux's.
#[derive(Debug, thiserror::Error)]
pub enum ResourceTableError {
    /// It is no table.
    #[error("error parsing [resource] configuration: Expected object, got {found}")]
    NoTable {
        /// The type of the value.
        found: &'static str,
    },
    /// A value of a wrong type.
    #[error("error parsing [resource] configuration: {key}: Expected {expected}, got {found}")]
    Type {
        /// The key.
        key: &'static str,
        /// The type that it must have.
        expected: &'static str,
        /// The type that it has.
        found: &'static str,
    },
    /// Keys that the table doesn't have.
    #[error("error parsing [resource] configuration: {}", unknown(.0))]
    UnknownKeys(Vec<String>),
    /// The resources are malformed.
    #[error(transparent)]
    Resources(#[from] ResourceError),
}

fn unknown(keys: &[String]) -> String {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    left_unpacked(&keys, KEYS.iter().map(|(key, _)| *key))
}

/// Checks the keys of the table and the types of their values.
///
/// # Errors
/// What is wrong, with the key.
pub(super) fn check_keys(config: &Value) -> Result<(), ResourceTableError> {
    let Some(table) = config.get("resource") else { return Ok(()) };
    let Some(table) = table.as_object() else {
        return Err(ResourceTableError::NoTable { found: json_type(table) });
    };
    for (key, kind) in KEYS {
        if let Some(value) = table.get(key)
            && let Some(expected) = kind.missed_by(value)
        {
            return Err(ResourceTableError::Type { key, expected, found: json_type(value) });
        }
    }
    let known = |key: &str| KEYS.iter().any(|(name, _)| *name == key);
    let left: Vec<String> = table.keys().filter(|key| !known(key)).cloned().collect();
    match left.is_empty() {
        true => Ok(resources::check_verify(config)?),
        false => Err(ResourceTableError::UnknownKeys(left)),
    }
}

/// Checks the whole table, including the resources that it or its file describes: the next start needs them.
///
/// # Errors
/// As for [`check_keys`], or the resources are malformed.
pub(super) fn check(config: &Value) -> Result<(), ResourceTableError> {
    check_keys(config)?;
    resources::configured_set(config)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_keys_and_other_types_are_refused() {
        let refused = |table: Value| check(&json!({ "resource": table })).unwrap_err().to_string();
        let with = |text: &str| format!("error parsing [resource] configuration: {text}");
        for (table, text) in [
            (json!(1), "Expected object, got integer"),
            (json!({"noverify": 1}), "noverify: Expected true or false, got integer"),
            (json!({"exclude": true}), "exclude: Expected string, got true"),
            (json!({"journal-max": 1.5}), "journal-max: Expected integer, got real"),
            (json!({"a": 1, "noverify": true, "b": 1}), "2 object item(s) left unpacked: a, b"),
        ] {
            assert_eq!(refused(table), with(text));
        }
        assert!(refused(json!({"config": 1})).contains("resource config must be an array"));
        assert!(refused(json!({"config": [{"hosts": "a", "x": 1}]})).contains("unknown field `x`"));
    }

    #[test]
    fn keys_that_only_flux_reads_are_accepted() {
        let table = json!({"rediscover": true, "no-update-watch": true, "journal-max": 5,
            "scheduling": "x", "verify": {}, "exclude": "0", "history": "30d"});
        check(&json!({ "resource": table })).unwrap();
        check(&json!({})).unwrap();
    }
}
