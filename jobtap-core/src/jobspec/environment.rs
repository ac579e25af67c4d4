//! The environment of a submitted jobspec, which is kept as its text.
//!
//! It is most of the document, and few policies look at it: the manager stores it with the signed request and
//! drops it. So a submission is parsed without it, and the environment is parsed when something asks for it.

use std::fmt;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memchr2;
use memchr::memmem::Finder;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// Where it stands in the document.
const PATH: [&str; 3] = ["attributes", "system", "environment"];
/// The same with periods.
const DOTTED: &str = "attributes.system.environment";

/// A document with an environment, as its text. It is parsed as a whole when something asks for the environment.
pub(super) struct WithEnvironment {
    text: Box<str>,
    document: OnceLock<Box<Value>>,
}

/// Parses a jobspec without its environment. The second value has the whole document; it is `None` if there is no
/// environment. A malformed environment isn't left out, so that the validation refuses it.
///
/// # Errors
/// The text isn't JSON.
pub(super) fn split(text: &str) -> serde_json::Result<(Value, Option<WithEnvironment>)> {
    match serde_json::from_str::<Split>(text) {
        Ok(split) => Ok(split.of(text)),
        // A variable isn't a text, which the validation refuses, or the document isn't JSON: this gives the error.
        Err(_) => Ok((serde_json::from_str(text)?, None)),
    }
}

/// As [`split`], for a document at the beginning of a text. The third value is what follows the document.
///
/// # Errors
/// The text doesn't begin with JSON, or the environment is malformed.
pub(super) fn split_first(
    text: &str,
) -> serde_json::Result<(Value, Option<WithEnvironment>, &str)> {
    let mut parser = serde_json::Deserializer::from_str(text).into_iter::<Split>();
    let split = parser.next().unwrap_or_else(|| Err(Error::custom("no document")))?;
    let (document, rest) = text.split_at_checked(parser.byte_offset()).unwrap_or((text, ""));
    let (value, environment) = split.of(document);
    Ok((value, environment, rest))
}

/// A document without its environment.
struct Split {
    value: Value,
    /// Whether it had one.
    left_out: bool,
}

impl Split {
    fn of(self, text: &str) -> (Value, Option<WithEnvironment>) {
        (self.value, self.left_out.then(|| WithEnvironment::new(text)))
    }
}

impl<'de> Deserialize<'de> for Split {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut left_out = false;
        let level = Level { path: &PATH, left_out: &mut left_out };
        Ok(Self { value: level.deserialize(deserializer)?, left_out })
    }
}

impl WithEnvironment {
    /// `text` is JSON.
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), document: OnceLock::new() }
    }

    /// The text of the whole document.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> Box<str> {
        self.text
    }

    /// The whole document.
    pub(super) fn document(&self) -> &Value {
        // It was parsed before, but for the environment, which is JSON too.
        self.document.get_or_init(|| serde_json::from_str(&self.text).unwrap_or_default())
    }

    /// The variables.
    pub(super) fn variables(&self) -> Option<&Map<String, Value>> {
        let [attributes, system, environment] = PATH;
        self.document().get(attributes)?.get(system)?.get(environment)?.as_object()
    }
}

/// Whether the value at this path, or a part of it, may be the environment.
pub(super) fn concerns(path: &str) -> bool {
    DOTTED.starts_with(path) || path.starts_with(DOTTED)
}

/// A value of the document, at the end of whose path the environment is.
struct Level<'f> {
    /// The keys from here to the environment.
    path: &'static [&'static str],
    /// Whether an environment was left out.
    left_out: &'f mut bool,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // If a key occurs twice its last value counts.
        *self.left_out = false;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            match self.path {
                [last] if key == *last => {
                    access.next_value::<Variables>()?;
                    *self.left_out = true;
                }
                [next, path @ ..] if key == *next => {
                    let left_out = &mut *self.left_out;
                    let value = access.next_value_seed(Level { path, left_out })?;
                    members.insert(key, value);
                }
                _ => {
                    members.insert(key, access.next_value()?);
                }
            }
        }
        Ok(members.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// An object whose members are texts or null, of which nothing is kept.
struct Variables;

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Variables, A::Error> {
                while access.next_entry::<TextOrNull, TextOrNull>()?.is_some() {}
                Ok(Variables)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A text or null, of which nothing is kept.
struct TextOrNull;

impl<'de> Deserialize<'de> for TextOrNull {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = TextOrNull;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or null")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<TextOrNull, E> {
                Ok(TextOrNull)
            }

            fn visit_unit<E: Error>(self) -> Result<TextOrNull, E> {
                Ok(TextOrNull)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

/// Where a text has the first member `"environment"` with an object of texts and null, written without spaces: the
/// place of that object. `None` if there is no such member, or if it has any fault.
///
/// The environment is two thirds of what a parser would read of most submissions, and nothing is wanted of it but that
/// it is JSON of this form. A search for the ends of its texts takes a quarter of the instructions of the parser.
pub(super) fn find(text: &str) -> Option<Range<usize>> {
    const MEMBER: &[u8] = b"\"environment\":{";
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));
    let start = FINDER.find(text.as_bytes())? + MEMBER.len() - 1;
    let object = text.as_bytes().get(start..)?;
    let mut rest = object.strip_prefix(b"{")?;
    if let Some(after) = rest.strip_prefix(b"}") {
        rest = after;
    } else {
        loop {
            let name = after_text(rest)?.strip_prefix(b":")?;
            let value = match name.strip_prefix(b"null") {
                Some(after) => after,
                None => after_text(name)?,
            };
            let (end, after) = value.split_first()?;
            rest = after;
            match end {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
    }
    let (object, _) = object.split_at_checked(object.len() - rest.len())?;
    // JSON has none of these in texts, and there is nothing but texts and punctuation.
    let has_control = object.iter().fold(false, |found, byte| found | (*byte < b' '));
    (!has_control).then_some(start..start + object.len())
}

/// What follows the JSON text with which the bytes begin; `None` if they don't begin with one. Control characters, which
/// such a text can't have, aren't looked for.
fn after_text(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(b"\"")?;
    loop {
        let at = memchr2(b'"', b'\\', rest)?;
        let (mark, after) = rest.get(at..)?.split_first()?;
        if *mark == b'"' {
            return Some(after);
        }
        let (escape, after) = after.split_first()?;
        rest = match escape {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => after,
            b'u' => {
                let (digits, after) = after.split_first_chunk::<4>()?;
                let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
                // One half of a pair, which is seldom: the parser knows whether the other half follows.
                let is_half =
                    matches!(digits, [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..]);
                (is_hex && !is_half).then_some(after)?
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The text is read as by a parser that knows nothing of the environment.
    fn reads_the_same(text: &str) -> Option<WithEnvironment> {
        let (rest, environment) = split(text).unwrap();
        let whole = environment.as_ref().map_or(&rest, WithEnvironment::document);
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(whole.to_string(), plain.to_string());
        if environment.is_some() {
            assert_eq!(rest.pointer("/attributes/system/environment"), None);
        }
        environment
    }

    #[test]
    fn the_environment_is_left_out_until_it_is_asked_for() {
        let text = r#"{"a":1,"attributes":{"x":[1.5,-2,true,null,"t"],"system":{"duration":0,
            "environment":{"HOME":"/home/\"u","OLD":null},"cwd":"/"}},"version":1}"#;
        let environment = reads_the_same(text).unwrap();
        let variables = environment.variables().cloned().map(Value::Object);
        assert_eq!(variables, Some(json!({"HOME": "/home/\"u", "OLD": null})));
    }

    #[test]
    fn a_malformed_environment_stays_in_the_document() {
        for environment in ["{\"A\":1}", "{\"A\":{}}", "[]", "5", "\"x\"", "null"] {
            let text = format!(r#"{{"attributes":{{"system":{{"environment":{environment}}}}}}}"#);
            assert!(reads_the_same(&text).is_none(), "{text}");
        }
    }

    #[test]
    fn of_a_key_that_occurs_twice_the_last_value_counts() {
        let with = |members: &str| format!(r#"{{"attributes":{{"system":{members}}}}}"#);
        let first = with(r#"{"environment":{"A":"1"},"x":0,"environment":{"B":"2"}}"#);
        let variables = reads_the_same(&first).unwrap().variables().cloned();
        assert_eq!(variables.map(Value::Object), Some(json!({"B": "2"})));
        for lost in [
            r#"{"attributes":{"system":{"environment":{"A":"1"}},"system":{}}}"#,
            r#"{"attributes":{"system":{"environment":{"A":"1"}}},"attributes":5}"#,
        ] {
            assert!(reads_the_same(lost).is_none(), "{lost}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_the_parsers_words() {
        for text in ["", "{", "{}x", r#"{"attributes":{"system":{"environment":{"A":}}}}"#, "nul"] {
            let plain = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(split(text).err().map(|error| error.to_string()), Some(plain), "{text}");
        }
    }

    #[test]
    fn paths_above_and_below_the_environment_concern_it() {
        for path in ["attributes", "attributes.system", DOTTED, "attributes.system.environment.A"] {
            assert!(concerns(path), "{path}");
        }
        assert!(!concerns("attributes.system.queue") && !concerns("attributes.user"));
    }

    /// What [`find`] finds in an object that begins with the environment.
    fn found(environment: &str) -> Option<String> {
        let text = format!("{{\"environment\":{environment},\"x\":0}}");
        find(&text).map(|place| text[place].to_owned())
    }

    #[test]
    fn an_environment_is_found_where_it_is_what_a_parser_takes() {
        for good in [
            "{}",
            r#"{"A":"1"}"#,
            r#"{"A":"","":null,"B":"}{,:"}"#,
            r#"{"A\"":"\\","B\u0041\ud7ff\uE000":"\/\b\f\n\r\t"}"#,
            "{\"A\":\"ü\u{7f}\"}",
        ] {
            assert_eq!(found(good).as_deref(), Some(good), "{good}");
            assert!(serde_json::from_str::<Variables>(good).is_ok(), "{good}");
        }
        for bad in [
            "{",
            "{,}",
            "{\"A\"}",
            "{\"A\":}",
            "{\"A\":1}",
            "{\"A\":{}}",
            "{\"A\":nul}",
            "{\"A\":\"1\",}",
            "{\"A\":\"1\" }",
            "{\"A\":\"1\n\"}",
            "{\"A\":\"\\x\"}",
            "{\"A\":\"\\u12\"}",
            "{\"A\":\"\\ud800\"}",
            "{\"A\":\"\\ud83d\\ude00\"}",
            "{\"A\":\"\\",
            "[]",
        ] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_parser_takes(
            environment in "\\{(\"([A-D:,\\x00-\\x20ü]|\\\\[\"\\\\/bfnrtx]|\\\\u[0-9a-fA-F]{3,4}){0,4}\"[:,]?|null|[,:} ]){0,8}\\}?",
        ) {
            let Some(found) = found(&environment) else { return Ok(()) };
            prop_assert!(serde_json::from_str::<Variables>(&found).is_ok(), "{}", found);
        }

        #[test]
        fn all_variables_are_found(
            variables in prop::collection::btree_map(".{0,8}", prop::option::of(".{0,20}"), 0..6),
        ) {
            let environment = json!(variables).to_string();
            prop_assert_eq!(found(&environment), Some(environment));
        }

        #[test]
        fn a_document_with_any_environment_reads_the_same(
            variables in prop::collection::btree_map(".{0,8}", prop::option::of(".{0,20}"), 0..6),
            before in 0usize..3,
        ) {
            let mut system: Map<String, Value> =
                (0..before).map(|n| (format!("k{n}"), n.into())).collect();
            system.insert("environment".to_owned(), json!(variables));
            system.insert("last".to_owned(), Value::Null);
            let text = json!({"attributes": {"system": system}}).to_string();
            prop_assert!(reads_the_same(&text).is_some());
        }
    }
}
