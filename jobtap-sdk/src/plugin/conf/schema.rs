//! The JSON Schema of a plugin's own table, as its type derives it.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::job::Fsd;

/// The schema (draft 2020-12) of the table that [`Conf`](super::Conf) reads as `C`.
pub(super) fn generate<C: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<C>().to_value();
    // The title is the name of the Rust type, which means nothing to authors of configurations.
    if let Value::Object(root) = &mut schema {
        root.remove("title");
    }
    if let Some(duration) = schema.pointer_mut("/$defs/Duration")
        && duration.pointer("/properties/secs").is_some()
        && duration.pointer("/properties/nanos").is_some()
    {
        // This is the standard library's type, which the reader accepts in the form of a Flux
        // standard duration.
        *duration = Fsd::json_schema(&mut SchemaGenerator::default()).to_value();
    }
    let mut extended = BTreeSet::new();
    find_extended(&schema, &mut extended);
    close(&mut schema, true, &extended);
    schema
}

/// The keywords that contain other schemas of the same value.
const COMBINED: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Collects the definitions that a schema refers to in addition to its own properties, as a schema
/// does for `#[serde(tag = "..")]`: such a definition describes only a part of its table.
fn find_extended(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let (Some(Value::String(target)), true) =
                (map.get("$ref"), map.contains_key("properties"))
                && let Some(name) = target.strip_prefix("#/$defs/")
            {
                found.insert(name.to_owned());
            }
            map.values().for_each(|inner| find_extended(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| find_extended(inner, found)),
        _ => {}
    }
}

/// Refuses unknown keys in the tables of structs, as the reader does even if the type doesn't say
/// so.
///
/// `whole` is false inside a schema that describes a table together with others: none of them knows
/// the keys of the others.
fn close(schema: &mut Value, whole: bool, extended: &BTreeSet<String>) {
    let Value::Object(map) = schema else { return };
    let parts = COMBINED.iter().any(|keyword| map.contains_key(*keyword));
    let parts = parts || map.contains_key("$ref");
    let table = map.contains_key("properties");
    if table && whole && !parts {
        map.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    for (keyword, inner) in map {
        match (keyword.as_str(), inner) {
            ("properties" | "patternProperties", Value::Object(inner)) => {
                inner.values_mut().for_each(|schema| close(schema, true, extended));
            }
            ("$defs", Value::Object(definitions)) => close_definitions(definitions, extended),
            ("allOf" | "anyOf" | "oneOf", Value::Array(inner)) => {
                inner.iter_mut().for_each(|schema| close(schema, whole && !table, extended));
            }
            ("prefixItems", Value::Array(inner)) => {
                inner.iter_mut().for_each(|schema| close(schema, true, extended));
            }
            ("additionalProperties" | "items", inner) => close(inner, true, extended),
            _ => {}
        }
    }
}

fn close_definitions(definitions: &mut Map<String, Value>, extended: &BTreeSet<String>) {
    for (name, definition) in definitions {
        close(definition, !extended.contains(name), extended);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::job::Uid;

    /// What the plugin does.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    #[serde(rename_all = "kebab-case")]
    struct Settings {
        /// When half of the usage has decayed.
        half_life: Fsd,
        #[serde(default)]
        weights: BTreeMap<String, f64>,
        #[serde(default = "two")]
        max: u8,
        fallback: Option<Point>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Point {
        x: i32,
    }

    fn two() -> u8 {
        2
    }

    fn point(closed: bool) -> Value {
        let mut point = json!({
            "type": "object",
            "properties": {"x": {"type": "integer", "format": "int32"}},
            "required": ["x"]
        });
        if closed {
            point["additionalProperties"] = json!(false);
        }
        point
    }

    #[test]
    fn a_duration_has_the_form_in_which_it_is_read() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Times {
            grace: std::time::Duration,
            period: Option<std::time::Duration>,
        }
        let schema = generate::<Times>();
        assert_eq!(schema["properties"]["grace"], json!({"$ref": "#/$defs/Duration"}));
        let form = json!({"type": ["number", "string"], "minimum": 0, "examples": [90, "1.5h"]});
        for (key, value) in form.as_object().unwrap() {
            assert_eq!(&schema["$defs"]["Duration"][key], value, "{schema:#}");
        }
    }

    #[test]
    fn a_schema_has_comments_defaults_and_closed_tables() {
        let fsd = "Seconds, or a number with unit: ms, s, m, h or d; or \"infinity\".";
        let schema = json!({
            "type": "object",
            "properties": {
                "half-life": {
                    "type": ["number", "string"],
                    "minimum": 0,
                    "description": "When half of the usage has decayed.",
                    "examples": [90, "1.5h"]
                },
                "weights": {
                    "type": "object",
                    "additionalProperties": {"type": "number", "format": "double"},
                    "default": {}
                },
                "max": {
                    "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255,
                    "default": 2
                },
                "fallback": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}
            },
            "required": ["half-life"],
            "additionalProperties": false,
            "description": "What the plugin does.",
            "$defs": {"Point": point(true)}
        });
        assert_eq!(generate::<Settings>(), schema);
        assert_eq!(generate::<Fsd>()["description"], fsd);
    }

    #[test]
    fn a_table_of_any_keys_stays_open() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Flat {
            max: u8,
            #[serde(flatten)]
            rest: HashMap<String, Value>,
        }
        assert_eq!(generate::<Flat>().get("additionalProperties"), Some(&json!(true)));
        let ids = generate::<BTreeMap<Uid, f64>>();
        assert_eq!(ids["additionalProperties"]["type"], "number");
    }

    #[test]
    fn the_parts_of_one_table_stay_open() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        enum Rule {
            Cap { most: u8 },
            At(Point),
        }
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Named {
            name: String,
            #[serde(flatten)]
            rule: Rule,
        }
        let rule = generate::<Rule>();
        assert_eq!(rule["oneOf"][0]["additionalProperties"], false);
        assert_eq!(rule["oneOf"][1].get("additionalProperties"), None);
        assert_eq!(rule["$defs"]["Point"], point(false));
        let named = generate::<Named>();
        assert_eq!(named.get("additionalProperties"), None);
        assert_eq!(named["oneOf"][0].get("additionalProperties"), None);
    }
}
