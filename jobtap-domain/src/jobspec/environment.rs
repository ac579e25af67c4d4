//! The environment of a submitted jobspec, which stays unparsed.
//!
//! It is most of the document, and few policies look at it: the manager stores it with the signed request and drops it.
//! So a submission is parsed without its environment, which is parsed only when something asks for it.
//!
//! A key that occurs twice in an object is refused. JSON doesn't say which of its values counts, so whoever checks a
//! jobspec and whoever runs it may read two different jobs.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hasher as _;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memchr2;
use memchr::memmem::Finder;
use rustc_hash::FxHasher;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use super::error::Place;

/// The path of the environment in the document.
const PATH: [&str; 3] = ["attributes", "system", "environment"];
/// The same path, joined by periods.
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
/// The text isn't JSON, or a key occurs twice.
pub(super) fn split(text: &str) -> serde_json::Result<(Value, Option<WithEnvironment>)> {
    match serde_json::from_str::<Split>(text) {
        Ok(split) => Ok(split.into_parts(text)),
        // Either a variable isn't a string, which the validation refuses, or this returns the parser's error.
        Err(_) => Ok((serde_json::from_str::<Whole>(text)?.0, None)),
    }
}

/// A document without its environment.
struct Split {
    value: Value,
    /// Whether it had one.
    left_out: bool,
}

impl Split {
    fn into_parts(self, text: &str) -> (Value, Option<WithEnvironment>) {
        (self.value, self.left_out.then(|| WithEnvironment::new(text)))
    }
}

impl<'de> Deserialize<'de> for Split {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut left_out = false;
        let level = Level { place: Place::Root, path: &PATH, left_out: &mut left_out };
        Ok(Self { value: level.deserialize(deserializer)?, left_out })
    }
}

/// A document with its environment.
struct Whole(Value);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let level = Level { place: Place::Root, path: &[], left_out: &mut false };
        level.deserialize(deserializer).map(Self)
    }
}

impl WithEnvironment {
    /// A document that isn't parsed yet. `text` must be valid JSON.
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
        // This can't fail: the text was parsed before, without the environment, which was checked to be JSON.
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

/// A value of the document.
struct Level<'f> {
    place: Place<'f>,
    /// The keys from here to the environment, which is left out; empty if it isn't below this value.
    path: &'static [&'static str],
    /// Whether an environment was left out.
    left_out: &'f mut bool,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
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
            let is_left_out = matches!(self.path, [last] if key == *last);
            if members.contains_key(&key) || is_left_out && *self.left_out {
                return Err(occurs_twice(&key, &self.place.to_string()));
            }
            if is_left_out {
                access.next_value::<Variables>()?;
                *self.left_out = true;
                continue;
            }
            let path = match self.path {
                [next, path @ ..] if key == *next => path,
                _ => &[],
            };
            let (place, left_out) = (self.place.key(&key), &mut *self.left_out);
            let value = access.next_value_seed(Level { place, path, left_out })?;
            members.insert(key, value);
        }
        Ok(members.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        loop {
            let place = self.place.index(elements.len());
            let level = Level { place, path: &[], left_out: &mut *self.left_out };
            match access.next_element_seed(level)? {
                Some(element) => elements.push(element),
                None => return Ok(Value::Array(elements)),
            }
        }
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

/// The error for a repeated key. `place` is the path of the object, empty for the whole document.
fn occurs_twice<E: Error>(key: &str, place: &str) -> E {
    let within = if place.is_empty() { "" } else { " in " };
    E::custom(format_args!("the key \"{key}\" occurs twice{within}{place}"))
}

/// An object whose members are strings or null; its contents are discarded.
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
                let mut names = HashSet::new();
                while let Some((name, TextOrNull)) = access.next_entry::<String, _>()? {
                    if let Some(name) = names.replace(name) {
                        return Err(occurs_twice(&name, DOTTED));
                    }
                }
                Ok(Variables)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A string or null; its contents are discarded.
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

/// Finds the first member `"environment"` and returns the byte range of its value, an object of strings and nulls that
/// is written without spaces and without escapes in the names. `None` if there is no such member, or if anything is
/// wrong with it.
///
/// In most submissions the environment is two thirds of what a parser would read, although it only has to be checked
/// for this form. A search for the ends of its strings takes a quarter of the parser's instructions.
pub(super) fn find(text: &str) -> Option<Range<usize>> {
    const MEMBER: &[u8] = b"\"environment\":{";
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));
    let start = FINDER.find(text.as_bytes())? + MEMBER.len() - 1;
    let object = text.as_bytes().get(start..)?;
    let mut rest = object.strip_prefix(b"{")?;
    let mut names = Names::default();
    if let Some(after) = rest.strip_prefix(b"}") {
        rest = after;
    } else {
        loop {
            let (name, after_name) = split_name(rest)?;
            names.add(name);
            let value = after_name.strip_prefix(b":")?;
            let value = match value.strip_prefix(b"null") {
                Some(after) => after,
                None => after_text(value)?,
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
    // JSON strings can't contain control characters, and the rest of the object is punctuation.
    let has_control = object.iter().fold(false, |found, byte| found | (*byte < b' '));
    (!has_control && names.are_distinct()).then_some(start..start + object.len())
}

/// Splits off the name at the beginning of the bytes, a JSON string; `None` if it has an escape, since it may be written in
/// several ways then.
fn split_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = bytes.strip_prefix(b"\"")?;
    let (name, rest) = text.split_at_checked(memchr2(b'"', b'\\', text)?)?;
    Some((name, rest.strip_prefix(b"\"")?))
}

/// The hashes of names, of which no two are the same, or else the names may be.
#[derive(Default)]
struct Names(Vec<u64>);

impl Names {
    fn add(&mut self, name: &[u8]) {
        let mut hasher = FxHasher::default();
        hasher.write(name);
        // 0 marks a free place.
        self.0.push(hasher.finish().max(1));
    }

    /// Whether all names are certainly distinct. To sort the 40 names of a usual environment took 14,000 instructions,
    /// half as many as everything else that is done to decode a submission.
    fn are_distinct(&self) -> bool {
        let size = (2 * self.0.len()).next_power_of_two();
        let mut table = vec![0_u64; size];
        self.0.iter().all(|hash| {
            let first = usize::try_from(*hash >> 32).unwrap_or_default();
            for step in 0..size {
                let Some(place) = table.get_mut((first + step) & (size - 1)) else { return false };
                match *place {
                    0 => {
                        *place = *hash;
                        return true;
                    }
                    other if other == *hash => return false,
                    _ => {}
                }
            }
            false
        })
    }
}

/// Returns what follows the JSON string at the beginning of the bytes; `None` if there is none. The caller checks for
/// control characters, which a JSON string can't contain.
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
                // Half of a surrogate pair, which is rare: the parser checks whether the other half follows.
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

    /// Checks that the text is read as by a parser that knows nothing of the environment.
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
    fn a_key_that_occurs_twice_is_refused_with_its_place() {
        let system = |members: &str| format!(r#"{{"attributes":{{"system":{members}}}}}"#);
        let environment = |members: &str| system(&format!(r#"{{"environment":{members}}}"#));
        for (text, key, place) in [
            (r#"{"version":1,"version":1}"#.to_owned(), "version", ""),
            (r#"{"attributes":{},"attributes":{}}"#.to_owned(), "attributes", ""),
            (r#"{"tasks":[{},{"slot":1,"slot":2}]}"#.to_owned(), "slot", " in tasks[1]"),
            (system(r#"{"queue":"a","que\u0075e":"b"}"#), "queue", " in attributes.system"),
            (
                system(r#"{"environment":{},"x":0,"environment":{}}"#),
                "environment",
                " in attributes.system",
            ),
            (
                system(r#"{"shell":{"options":{"a":1,"a":1}}}"#),
                "a",
                " in attributes.system.shell.options",
            ),
            (environment(r#"{"A":"1","B":"","A":"1"}"#), "A", " in attributes.system.environment"),
            // An environment that isn't left out.
            (environment(r#"{"A":1,"A":1}"#), "A", " in attributes.system.environment"),
        ] {
            let error = split(&text).err().unwrap().to_string();
            let begin = format!("the key \"{key}\" occurs twice{place} at line 1 column ");
            assert!(error.starts_with(&begin), "{error}");
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

    /// The text that [`find`] finds in an object that begins with this environment.
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
            r#"{"A":"\"\\","B":"\u0041\ud7ff\uE000\/\b\f\n\r\t"}"#,
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
            r#"{"A":"1","A":"1"}"#,
            // Names with escapes are left to the parser, which decodes them.
            r#"{"\u0041":"1"}"#,
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
            variables in
                prop::collection::btree_map("[^\"\\\\\\x00-\\x1f]{0,8}", prop::option::of(".{0,20}"), 0..6),
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
