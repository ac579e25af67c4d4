//! For tests: whether a value is what a JSON Schema says, by the keywords that are used here.

use serde_json::Value;

/// The first keyword that refuses the value.
pub(super) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        if !holds(keyword, rule, schema, value) {
            return Err(format!("{keyword}: {rule} refuses {value}"));
        }
    }
    Ok(())
}

fn is_ok(schema: &Value, value: &Value) -> bool {
    check(schema, value).is_ok()
}

fn holds(keyword: &str, rule: &Value, schema: &Value, value: &Value) -> bool {
    let rules = || rule.as_array().unwrap();
    match (keyword, value) {
        ("type", _) => match rule {
            Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
            kind => is_a(kind, value),
        },
        ("enum", _) => rules().contains(value),
        ("anyOf", _) => rules().iter().any(|schema| is_ok(schema, value)),
        ("allOf", _) => rules().iter().all(|schema| is_ok(schema, value)),
        ("oneOf", _) => rules().iter().filter(|schema| is_ok(schema, value)).count() == 1,
        ("minimum", Value::Number(n)) => n.as_f64() >= rule.as_f64(),
        ("maximum", Value::Number(n)) => n.as_f64() <= rule.as_f64(),
        ("minLength", Value::String(text)) => text.chars().count() as u64 >= rule.as_u64().unwrap(),
        ("maxLength", Value::String(text)) => text.chars().count() as u64 <= rule.as_u64().unwrap(),
        ("minItems", Value::Array(items)) => items.len() as u64 >= rule.as_u64().unwrap(),
        ("maxItems", Value::Array(items)) => items.len() as u64 <= rule.as_u64().unwrap(),
        ("items", Value::Array(items)) => items.iter().all(|item| is_ok(rule, item)),
        ("prefixItems", Value::Array(items)) => {
            let mut pairs = rules().iter().zip(items);
            pairs.all(|(schema, item)| is_ok(schema, item))
        }
        ("required", Value::Object(table)) => {
            let mut keys = rules().iter().map(|key| key.as_str().unwrap());
            keys.all(|key| table.contains_key(key))
        }
        ("properties", Value::Object(table)) => {
            let mut known = rule.as_object().unwrap().iter();
            known.all(|(key, schema)| table.get(key).is_none_or(|value| is_ok(schema, value)))
        }
        ("propertyNames", Value::Object(table)) => {
            let mut keys = table.keys();
            keys.all(|key| is_ok(rule, &Value::from(key.as_str())))
        }
        ("additionalProperties", Value::Object(table)) => table.iter().all(|(key, value)| {
            let known = schema.get("properties").and_then(|known| known.get(key));
            known.is_some() || (*rule != Value::Bool(false) && is_ok(rule, value))
        }),
        (
            "minimum"
            | "maximum"
            | "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "items"
            | "prefixItems"
            | "required"
            | "properties"
            | "propertyNames"
            | "additionalProperties"
            | "description",
            _,
        ) => true,
        _ => panic!("unknown keyword {keyword}"),
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}
