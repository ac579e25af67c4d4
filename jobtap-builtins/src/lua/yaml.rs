//! YAML as `slurm.to_yaml` of Slurm 26.05 writes it: a directive with the version, a tag on each key and value, and the end of
//! the document.
//!
//! Slurm hands all numbers of Lua 5.1 on as floating point, so they are written with six digits after the point.

use std::fmt::Write;

use serde_json::Value;

/// Writes a document.
pub(super) fn written(value: &Value) -> String {
    let mut text = String::from("%YAML 1.1\n--- ");
    node(&mut text, value, 0, false);
    text.push_str("...\n");
    text
}

/// Writes a value with its tag, up to the end of its line. The lines of a collection follow at this depth, those of
/// a list one less in a map.
fn node(text: &mut String, value: &Value, depth: usize, in_map: bool) {
    // Writing to a text can't fail.
    let _ = match value {
        Value::Null => writeln!(text, "!!null null"),
        Value::Bool(value) => writeln!(text, "!!bool {value}"),
        Value::Number(number) => {
            writeln!(text, "!!float {:.6}", number.as_f64().unwrap_or(f64::NAN))
        }
        Value::String(value) => writeln!(text, "!!str {}", scalar(value)),
        Value::Array(list) if list.is_empty() => writeln!(text, "!!seq []"),
        Value::Object(map) if map.is_empty() => writeln!(text, "!!map {{}}"),
        Value::Array(list) => {
            text.push_str("!!seq\n");
            let depth = if in_map { depth - 1 } else { depth };
            for value in list {
                let _ = write!(text, "{:1$}- ", "", 2 * depth);
                node(text, value, depth + 1, false);
            }
            Ok(())
        }
        Value::Object(map) => {
            text.push_str("!!map\n");
            for (key, value) in map {
                let _ = write!(text, "{:1$}!!str {key}: ", "", 2 * depth, key = scalar(key));
                node(text, value, depth + 1, true);
            }
            Ok(())
        }
    };
}

/// A text, in quotes where it would be read as something else.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./+@=,;() -".contains(c);
    let begins = text.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '/');
    if begins && text.chars().all(is_plain) && !text.ends_with(' ') {
        text.to_owned()
    } else if text.chars().any(char::is_control) {
        // A text in JSON's quotes is also one of YAML.
        Value::from(text).to_string()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_tags_as_in_slurm() {
        assert_eq!(
            written(&json!({"a": 1})),
            "%YAML 1.1\n--- !!map\n!!str a: !!float 1.000000\n...\n"
        );
        let nested =
            json!({"list": [1.5, {"x": true, "y": []}, [null]], "of": {"name": "it's: so"}});
        let text = "%YAML 1.1\n--- !!map\n\
            !!str list: !!seq\n\
            - !!float 1.500000\n\
            - !!map\n  !!str x: !!bool true\n  !!str y: !!seq []\n\
            - !!seq\n  - !!null null\n\
            !!str of: !!map\n  !!str name: !!str 'it''s: so'\n...\n";
        assert_eq!(written(&nested), text);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let value =
            json!({"a": [1, "two", {"b": "- x\ny", "c": [[], {}]}], "": "true", "d e": null});
        let read: Value = serde_norway::from_str(&written(&value)).unwrap();
        assert_eq!(read["a"][2], value["a"][2]);
        assert_eq!((&read[""], &read["d e"]), (&value[""], &value["d e"]));
        assert_eq!(read["a"][0].as_f64(), Some(1.0));
    }
}
