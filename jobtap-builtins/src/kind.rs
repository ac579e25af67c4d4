//! Kinds of JSON values in the words of Flux's refusals.

use serde_json::Value;

/// What a JSON value is, in the words of Flux's refusals.
pub(crate) fn kind(value: &Value) -> &'static str {
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
