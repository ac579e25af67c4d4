//! JSON as Flux's commands print it: with a space after each comma and colon.

use std::io;

use jobtap_core::resource::ResourceSet;
use serde::Serialize;
use serde_json::Value;

/// The text of `value` on one line, with a space after each separator.
pub(in crate::cli) fn spaced_json(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Spaced);
    // This can't fail: the commands' values have text keys, and writing to memory always succeeds.
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The line that Flux prints for a set of resources, with the keys in its order.
pub(in crate::cli) fn resource_line(set: &ResourceSet) -> String {
    let mut r = set.to_value();
    if let Some(execution) = r.get_mut("execution").and_then(Value::as_object_mut) {
        for key in ["nodelist", "nslots", "properties"] {
            if let Some(value) = execution.shift_remove(key) {
                execution.insert(key.to_owned(), value);
            }
        }
    }
    format!("{}\n", spaced_json(&r))
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.begin_array_value(w, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn separators_are_followed_by_a_space() {
        let value = json!({"a": [1, {"b": ","}], "c": ":"});
        assert_eq!(spaced_json(&value), r#"{"a": [1, {"b": ","}], "c": ":"}"#);
        assert_eq!(spaced_json(&json!({"jobs": []})), r#"{"jobs": []}"#);
    }

    #[test]
    fn resources_are_printed_in_the_order_of_flux() {
        let set = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["a"],"properties":{"x":"0"},"starttime":0,"expiration":0}}"#;
        assert_eq!(
            resource_line(&set.parse().unwrap()),
            "{\"version\": 1, \"execution\": {\"R_lite\": [{\"rank\": \"0\", \"children\": {\"core\": \"0\"}}], \
             \"starttime\": 0.0, \"expiration\": 0.0, \"nodelist\": [\"a\"], \"properties\": {\"x\": \"0\"}}}\n"
        );
    }

    proptest! {
        #[test]
        fn the_text_is_json_of_the_same_value(texts in proptest::collection::vec(".{0,6}", 0..4)) {
            let value = json!({"list": texts, "map": {"key": texts}});
            let read: Value = serde_json::from_str(&spaced_json(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
