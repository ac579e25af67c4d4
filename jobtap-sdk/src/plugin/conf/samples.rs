//! For tests: types of every kind that a configuration may be read as. The reader must not panic on
//! any of them, and each error must have a text.

#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU16;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::read::{UnknownKeys, read};
use crate::job::{Fsd, JobId, JobResult, State, Uid};
use crate::resource::Hostlist;

#[derive(Deserialize)]
struct Plain {
    a: bool,
    b: u8,
    c: i64,
    d: f64,
    e: char,
    f: String,
    #[serde(default)]
    g: u16,
    h: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Defaults {
    a: u8,
    b: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Nested {
    #[serde(alias = "old-key", alias = "a")]
    new_key: u8,
    b: Vec<Point>,
    c: HashMap<String, Point>,
    d: BTreeMap<Kind, f32>,
    e: HashMap<Uid, f64>,
    f: (u8, String),
    g: [u8; 3],
    h: HashSet<i8>,
    #[serde(skip)]
    i: u8,
}

#[derive(Deserialize)]
struct Point {
    a: i32,
    b: i32,
}

#[derive(Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Kind {
    A,
    #[serde(alias = "c")]
    B,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mixed {
    A,
    B(u8),
    C(u8, Option<u8>),
    D { a: u8, b: Option<Box<Mixed>> },
    E(Vec<Mixed>),
    F(()),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Open {
    A,
    B(u8),
    #[serde(other)]
    Rest,
}

#[derive(Deserialize)]
#[serde(tag = "a", rename_all = "lowercase")]
enum Tagged {
    A,
    B { b: u8 },
    C { c: Point },
}

#[derive(Deserialize)]
#[serde(tag = "a", content = "b", rename_all = "lowercase")]
enum Adjacent {
    A(u8),
    B,
    C { c: u8 },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Untagged {
    A(u8),
    B(String),
    C { a: u8 },
}

#[derive(Deserialize)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    rest: Point2,
    #[serde(flatten)]
    more: HashMap<String, Value>,
}

#[derive(Deserialize)]
struct Point2 {
    b: i32,
    #[serde(default)]
    c: i32,
}

#[derive(Deserialize)]
struct Newtype(u8);

#[derive(Deserialize)]
struct Pair(u8, #[serde(default)] u8);

#[derive(Deserialize)]
struct Unit;

#[derive(Deserialize)]
struct Tree {
    a: u8,
    b: Option<Box<Tree>>,
    c: Vec<Tree>,
    d: BTreeMap<String, Tree>,
}

#[derive(Deserialize)]
struct Endless(Vec<Endless>);

#[derive(Deserialize)]
struct Endless2(Box<(Option<Endless2>, Option<Endless2>)>);

#[derive(Deserialize)]
struct Own {
    a: Fsd,
    b: Option<JobId>,
    c: Option<Hostlist>,
    d: Option<State>,
    e: Option<JobResult>,
    f: Option<NonZeroU16>,
    g: Option<std::net::IpAddr>,
    h: Option<std::time::Duration>,
    i: Option<std::path::PathBuf>,
}

#[derive(Deserialize)]
#[serde(try_from = "Plain")]
struct Checked;

impl TryFrom<Plain> for Checked {
    type Error = &'static str;

    fn try_from(plain: Plain) -> Result<Self, &'static str> {
        match plain.b {
            7 => Ok(Checked),
            _ => Err("b must be 7"),
        }
    }
}

/// Falls back to a default.
#[derive(Deserialize)]
struct Lenient {
    #[serde(deserialize_with = "or_default")]
    a: u8,
    #[serde(deserialize_with = "or_default", default)]
    b: Option<u8>,
    #[serde(deserialize_with = "or_default", default)]
    c: Vec<u8>,
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// Skips all elements that are not numbers, however many errors that takes.
struct Lossy(Vec<u8>);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> serde::de::Visitor<'de> for Elements {
            type Value = Lossy;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("numbers")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Lossy, A::Error> {
                let mut elements = Vec::new();
                loop {
                    match seq.next_element() {
                        Ok(Some(element)) => elements.push(element),
                        Ok(None) => return Ok(Lossy(elements)),
                        Err(_) => continue,
                    }
                }
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

/// Reads nothing from its deserializer.
struct Constant;

impl<'de> Deserialize<'de> for Constant {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Constant)
    }
}

fn json() -> impl Strategy<Value = Value> {
    let texts = ["a", "b", "c", "d", "e", "rest", "1d", "7", "", "::1", "run"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..300_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(texts.to_vec()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "new-key", "old-key", "7", "x", ""];
    leaf.prop_recursive(5, 48, 8, move |inner| {
        let key = proptest::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..8)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Asserts that a read that accepts unknown keys accepts whatever a strict read does, and that each
/// error has a text.
fn hold<C: DeserializeOwned>(value: &Value) {
    match read::<C>(value, UnknownKeys::Refused) {
        Ok(_) => read::<C>(value, UnknownKeys::Accepted).map(drop).unwrap(),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = read::<C>(value, UnknownKeys::Accepted) {
        assert!(!error.to_string().is_empty());
    }
}

/// Reads a type from values that it accepts, from those with one key removed or changed, and from
/// any value.
fn hold_type<C: DeserializeOwned>(accepted: &[Value]) {
    for value in accepted {
        read::<C>(value, UnknownKeys::Refused).map(drop).unwrap();
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(key);
            hold::<C>(&less);
        }
    }
    proptest!(ProptestConfig::with_cases(200), |(value in json())| {
        hold::<C>(&value);
    });
    if let Some(Value::Object(table)) = accepted.first() {
        proptest!(ProptestConfig::with_cases(200), |(other in json(), at in any::<proptest::sample::Index>())| {
            let mut table = table.clone();
            let place = at.index(table.len().max(1));
            if let Some((_, value)) = table.iter_mut().nth(place) {
                *value = other;
            }
            hold::<C>(&Value::Object(table));
        });
    }
}

#[test]
fn structs_are_read() {
    let plain = json!({"a": true, "b": 1, "c": -1, "d": 1, "e": "x", "f": "y", "g": 1, "h": null});
    hold_type::<Plain>(&[plain]);
    hold_type::<Defaults>(&[json!({}), json!({"a": 1})]);
    let nested = json!({
        "new-key": 1, "b": [{"a": 1, "b": 2}], "c": {"x": {"a": 1, "b": 2}}, "d": {"a": 1, "b": 2},
        "e": {"7": 0.5}, "f": [1, "x"], "g": [1, 2, 3], "h": [-1]
    });
    let mut old = nested.clone();
    old.as_object_mut().unwrap().remove("new-key");
    old.as_object_mut().unwrap().insert("old-key".to_owned(), json!(1));
    hold_type::<Nested>(&[nested, old]);
    let flat = [json!({"a": 1, "b": 1, "c": 1, "x": []}), json!({"a": 1, "b": 1})];
    hold_type::<Flat>(&flat);
    let sub = json!({"a": 1, "c": [], "d": {}});
    hold_type::<Tree>(&[json!({"a": 1, "b": sub, "c": [sub], "d": {"x": sub}, })]);
}

#[test]
fn enums_are_read() {
    hold_type::<Kind>(&[json!("a"), json!("b"), json!("c")]);
    let mixed = [
        json!({"d": {"a": 1, "b": {"b": 1}}}),
        json!("a"),
        json!({"b": 1}),
        json!({"c": [1, null]}),
        json!({"d": {"a": 1}}),
        json!({"e": ["a", {"b": 1}]}),
        json!({"f": null}),
    ];
    hold_type::<Mixed>(&mixed);
    hold_type::<Open>(&[json!("a"), json!({"b": 1}), json!("rest"), json!("anything")]);
    let tagged =
        [json!({"a": "b", "b": 1}), json!({"a": "a"}), json!({"a": "c", "c": {"a": 1, "b": 1}})];
    hold_type::<Tagged>(&tagged);
    let adjacent = [json!({"a": "a", "b": 1}), json!({"a": "b"}), json!({"b": {"c": 1}, "a": "c"})];
    hold_type::<Adjacent>(&adjacent);
    hold_type::<Untagged>(&[json!({"a": 1}), json!(1), json!("x")]);
    hold_type::<Vec<Option<Result<u8, String>>>>(&[json!([null, {"Ok": 1}, {"Err": "x"}])]);
}

#[test]
fn other_types_are_read() {
    hold_type::<Newtype>(&[json!(1)]);
    hold_type::<Pair>(&[json!([1]), json!([1, 2])]);
    hold_type::<Unit>(&[json!(null)]);
    hold_type::<Endless>(&[json!([[], [[]]])]);
    hold_type::<Endless2>(&[json!([null, [null, null]])]);
    hold_type::<(u8, std::net::IpAddr, u8)>(&[json!([1, "::1", 2])]);
    hold_type::<Value>(&[json!({"a": [1]})]);
    hold_type::<Map<String, Value>>(&[json!({"a": [1]})]);
    hold_type::<HashMap<bool, i128>>(&[json!({"true": 1})]);
    hold_type::<BTreeMap<i8, u128>>(&[json!({"-7": 1})]);
    hold_type::<Constant>(&[json!(1)]);
    hold_type::<serde::de::IgnoredAny>(&[json!(1)]);
    hold_type::<std::ffi::CString>(&[json!([65])]);
    hold_type::<Option<Option<u8>>>(&[json!(null), json!(1)]);
}

#[test]
fn types_with_a_text_form_are_read() {
    let own = json!({
        "a": "1d", "b": "f1", "c": "node[0-3]", "d": "run", "e": "CD", "f": 7, "g": "::1",
        "h": {"secs": 1, "nanos": 0}, "i": "/tmp"
    });
    hold_type::<Own>(&[own, json!({"a": 0.5})]);
    hold_type::<Fsd>(&[json!("1d"), json!(1), json!(0.5)]);
    hold_type::<JobId>(&[json!(1)]);
    hold_type::<Uid>(&[json!(1000), json!("1000")]);
    let plain = json!({"a": true, "b": 7, "c": -1, "d": 1, "e": "x", "f": "y"});
    hold_type::<Checked>(&[plain]);
}

#[test]
fn types_that_ignore_errors_are_read() {
    hold_type::<Lenient>(&[json!({"a": "x", "b": [], "c": 7})]);
    hold_type::<Lossy>(&[json!([1, "x", {}])]);
}
