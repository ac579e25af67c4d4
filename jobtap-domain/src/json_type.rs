//! The names of JSON's types in error messages, as users of Flux know them.

use serde_json::Value;

/// The name of a JSON value's type in the messages of Jansson, the JSON library of Flux. A Boolean is named by its
/// value, which is a type of its own there.
///
/// ```
/// use jobtap_core::json_type;
/// use serde_json::json;
///
/// let value = json!({"cores": [1, 2.5, true]});
/// assert_eq!(json_type(&value), "object");
/// assert_eq!(json_type(&value["cores"]), "array");
/// assert_eq!(json_type(&value["cores"][0]), "integer");
/// assert_eq!(json_type(&value["cores"][1]), "real");
/// assert_eq!(json_type(&value["cores"][2]), "true");
/// ```
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
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
