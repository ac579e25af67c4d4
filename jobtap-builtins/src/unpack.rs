//! Configuration tables without unknown keys, with the messages of Flux.

use jobtap_core::json_type;
use jobtap_core::plugin::ConfTable;
use jobtap_core::prelude::*;
use serde_json::Value;

/// The expected kind of a key's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Bool,
    Number,
    Text,
}

impl Expected {
    fn is_met_by(self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Number => "real or integer",
            Self::Text => "string",
        }
    }
}

/// Reads a table that may not have unknown keys. `keys` lists the expected kinds of values.
pub(crate) fn unpack<C: ConfTable>(
    table: &Value,
    keys: &[(&str, Expected)],
) -> Result<C, ConfError> {
    let wrong = |expected: &str, found: &Value| {
        Err(ConfError::new(format!("Expected {expected}, got {}", json_type(found))))
    };
    let Value::Object(members) = table else {
        return wrong("object", table);
    };
    for (key, expected) in keys {
        if let Some(value) = members.get(*key).filter(|value| !expected.is_met_by(value)) {
            return wrong(expected.word(), value);
        }
    }
    let strays = C::unknown_keys(table);
    if strays.is_empty() {
        return C::read(table);
    }
    let (count, keys) = (strays.len(), strays.join(", "));
    // The reader's own error suggests a name for the first of them.
    let read = C::read(table).err();
    let meant = read.as_ref().and_then(|error| error.text().split_once("; did you mean "));
    let meant = meant.map(|(_, meant)| format!("; did you mean {}", meant.replace('"', "")));
    let meant = meant.unwrap_or_default();
    Err(ConfError::new(format!("{count} object item(s) left unpacked: {keys}{meant}")))
}
