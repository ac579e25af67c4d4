//! The table `[resource]`: which keys it may have, and of which types. As in Flux, an unknown
//! key is an error: a misspelt one could let jobs run on nodes that were to be left out.

use jobtap_core::settings::left_unpacked;
use serde_json::Value;

use crate::daemon::resources;

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Flag,
    Integer,
    /// It is checked where it is read.
    Other,
}

/// The keys, with those of Flux that have no meaning here.
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
    /// What a value of this kind is called, if `value` isn't one.
    fn missed_by(self, value: &Value) -> Option<&'static str> {
        match self {
            Self::Text if !value.is_string() => Some("string"),
            Self::Flag if !value.is_boolean() => Some("true or false"),
            Self::Integer if !value.is_i64() && !value.is_u64() => Some("integer"),
            _ => None,
        }
    }
}

/// Checks the keys of the table and the types of their values.
///
/// # Errors
/// In Flux's words, with the key.
pub(super) fn check_keys(config: &Value) -> Result<(), String> {
    let Some(table) = config.get("resource") else { return Ok(()) };
    let wrong = |text: String| Err(format!("error parsing [resource] configuration: {text}"));
    let Some(table) = table.as_object() else {
        return wrong(format!("Expected object, got {}", type_of(table)));
    };
    for (key, kind) in KEYS {
        if let Some(value) = table.get(key)
            && let Some(expected) = kind.missed_by(value)
        {
            return wrong(format!("{key}: Expected {expected}, got {}", type_of(value)));
        }
    }
    let known = |key: &str| KEYS.iter().any(|(name, _)| *name == key);
    let left: Vec<&str> = table.keys().map(String::as_str).filter(|key| !known(key)).collect();
    match left.is_empty() {
        true => resources::check_verify(config).map_err(|error| error.to_string()),
        false => wrong(left_unpacked(&left, KEYS.iter().map(|(key, _)| *key))),
    }
}

/// Checks the whole table, with the resources that it or its file describes, which the next start needs.
///
/// # Errors
/// As [`check_keys`], or the resources are malformed.
pub(super) fn check(config: &Value) -> Result<(), String> {
    check_keys(config)?;
    resources::configured_set(config).map(drop).map_err(|error| error.to_string())
}

/// The type of a value as jansson, Flux's library for JSON, calls it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_keys_and_other_types_are_refused() {
        let refused = |table: Value| check(&json!({ "resource": table })).unwrap_err();
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
        assert_eq!(check(&json!({ "resource": table })), Ok(()));
        assert_eq!(check(&json!({})), Ok(()));
    }
}
