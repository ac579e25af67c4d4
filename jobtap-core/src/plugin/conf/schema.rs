//! The JSON Schema of a type, learnt by probing it.
//!
//! Each claim rests on something that was seen: on what the type asked for, which the reader gives
//! it in one form alone, or on an error that the type raised. Where nothing was seen the schema is
//! `{}`, which accepts everything. So it never refuses what the type accepts.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::Names;
use super::probe::{Answer, Asked, Feed, Prober, Step};

/// How deep the schema goes; deeper inside all is `{}`.
const DEPTH: usize = 24;

/// How often the type is probed; what is not known by then stays open.
const PROBES: u32 = 50_000;

/// Texts and keys of which types with a format of their own take one or the other.
pub(super) const TEXTS: [&str; 18] = [
    "",
    "a",
    "0",
    "1",
    "1.0",
    "1s",
    "true",
    "none",
    "all",
    "auto",
    "default",
    "unlimited",
    "/",
    "127.0.0.1",
    "::1",
    "127.0.0.1:1",
    "2000-01-01",
    "2000-01-01T00:00:00Z",
];

/// The schema of `C`.
pub(super) fn of<C: DeserializeOwned>() -> Value {
    let root = Place { steps: Vec::new(), inside: Vec::new() };
    Schemer::<C>(Prober::new(PROBES)).learn(&root).schema
}

/// A place inside the type.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) steps: Vec<Step>,
    /// The named types that it is inside of, so that a type in itself is seen.
    inside: Vec<(&'static str, Names)>,
}

impl Place {
    pub(super) fn then(&self, step: Step) -> Self {
        let mut place = self.clone();
        place.steps.push(step);
        place
    }

    pub(super) fn entry(&self, key: &str) -> Self {
        self.then(Step::Entry(key.to_owned()))
    }

    /// The place with the type's name noted; `None` when it is inside that type already.
    fn enter(&self, name: &'static str, names: Names) -> Option<Self> {
        let mut place = self.clone();
        if !name.is_empty() {
            if place.inside.contains(&(name, names)) {
                return None;
            }
            place.inside.push((name, names));
        }
        Some(place)
    }
}

/// What is known of a place.
#[derive(Debug, Clone)]
pub(super) struct Learnt {
    pub(super) schema: Value,
    /// Values that the type there accepts; empty when none was found.
    pub(super) samples: Vec<Value>,
}

impl Learnt {
    pub(super) fn nothing() -> Self {
        Self { schema: json!({}), samples: Vec::new() }
    }
}

pub(super) struct Schemer<C>(Prober<C>);

impl<C: DeserializeOwned> Schemer<C> {
    pub(super) fn ask(&self, at: &Place, feed: Feed<'_>) -> Answer {
        self.0.ask(&at.steps, feed)
    }

    /// Those of the candidates that the type accepts, at most so many.
    pub(super) fn accepted(
        &self,
        at: &Place,
        candidates: impl IntoIterator<Item = Value>,
        most: usize,
    ) -> Vec<Value> {
        let mut accepted = Vec::new();
        for value in candidates {
            if accepted.len() == most {
                break;
            }
            match self.ask(at, Feed::Value(&value)).result {
                Some(Ok(())) => accepted.push(value),
                Some(Err(_)) => (),
                // It panicked, or the limit is reached: no use in going on.
                None => break,
            }
        }
        accepted
    }

    pub(super) fn learn(&self, at: &Place) -> Learnt {
        if at.steps.len() > DEPTH {
            return Learnt::nothing();
        }
        let answer = self.ask(at, Feed::Nothing);
        let mut at = at.clone();
        for newtype in &answer.newtypes {
            match at.enter(newtype, &[]) {
                Some(entered) => at = entered,
                None => return Learnt::nothing(),
            }
        }
        let Some(asked) = &answer.asked else {
            return Learnt::nothing();
        };
        let mut learnt = match *asked {
            Asked::Option => self.option(&at),
            Asked::Seq => self.seq(&at),
            Asked::Tuple(len) => self.tuple(&at, len),
            Asked::Map => self.map(&at),
            Asked::Struct(name, fields) => match at.enter(name, fields) {
                Some(at) => self.structure(&at, fields),
                None => self.known_keys(&at, fields),
            },
            Asked::Enum(name, variants) => match at.enter(name, variants) {
                Some(at) => self.choice(&at, variants),
                None => Learnt::nothing(),
            },
            Asked::Identifier => self.identifier(&at),
            Asked::Any => self.any(&at, &answer.expecting),
            _ => self.scalar(&at, &answer),
        };
        if learnt.schema != json!({}) && self.falls_back(&at, asked) {
            learnt.schema = json!({});
        }
        learnt
    }

    fn scalar(&self, at: &Place, answer: &Answer) -> Learnt {
        let texts = || TEXTS.iter().map(|text| json!(text)).collect::<Vec<_>>();
        let (mut schema, candidates, most) = match answer.asked {
            Some(Asked::Bool) => {
                let both = vec![json!(false), json!(true)];
                (json!({"type": "boolean"}), both, 2)
            }
            Some(Asked::Integer { min, max }) => return self.integer(at, min, max, answer),
            Some(Asked::Number) => {
                let some = vec![json!(0.5), json!(1), json!(0)];
                (json!({"type": "number"}), some, 1)
            }
            Some(Asked::Char) => {
                let one = json!({"type": "string", "minLength": 1, "maxLength": 1});
                (one, texts(), 1)
            }
            Some(Asked::Text) => (json!({"type": "string"}), texts(), 1),
            Some(Asked::Bytes) => {
                let mut some = texts();
                some.push(json!([]));
                (json!({"type": ["string", "array"]}), some, 1)
            }
            Some(Asked::Null) => (json!({"type": "null"}), vec![json!(null)], 1),
            _ => (json!({}), vec![json!(null)], 1),
        };
        describe(&mut schema, &answer.expecting);
        Learnt { schema, samples: self.accepted(at, candidates, most) }
    }

    fn integer(&self, at: &Place, min: Option<i64>, max: Option<u64>, answer: &Answer) -> Learnt {
        let mut schema = Map::new();
        let fractions = self.ask(at, Feed::Value(&json!(0.5))).is_ok();
        let kind = if fractions { "number" } else { "integer" };
        schema.insert("type".to_owned(), json!(kind));
        let samples = self.accepted(at, [0, 1, 2, -1, 10].map(|n| json!(n)), 1);
        // `NonZero` types ask for the integer that they hold.
        let above_zero = samples.first() == Some(&json!(1));
        let min = min.map(|min| if min == 0 && above_zero && !fractions { 1 } else { min });
        if let Some(min) = min {
            schema.insert("minimum".to_owned(), json!(min));
        }
        if let Some(max) = max {
            schema.insert("maximum".to_owned(), json!(max));
        }
        let mut schema = Value::Object(schema);
        describe(&mut schema, &answer.expecting);
        Learnt { schema, samples }
    }

    fn option(&self, at: &Place) -> Learnt {
        let Learnt { schema, samples } = self.learn(&at.then(Step::Some));
        let mut kinds = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.clone(),
            Some(kind) => vec![kind.clone()],
            None => Vec::new(),
        };
        let schema = if schema == json!({}) {
            schema
        } else if kinds.is_empty() {
            json!({"anyOf": [schema, {"type": "null"}]})
        } else {
            kinds.push(json!("null"));
            kinds.dedup();
            let mut schema = schema;
            put(&mut schema, "type", json!(kinds));
            schema
        };
        let candidates = samples.into_iter().chain([Value::Null]);
        let samples = self.accepted(at, candidates, usize::MAX);
        Learnt { schema, samples }
    }

    /// What asks for any value, and takes what comes.
    fn any(&self, at: &Place, expecting: &str) -> Learnt {
        let texts = TEXTS.map(|text| json!(text));
        let kinds: [(&str, &[Value]); 7] = [
            ("null", &[json!(null)]),
            ("boolean", &[json!(true), json!(false)]),
            ("integer", &[json!(0), json!(1), json!(-1)]),
            ("number", &[json!(0.5), json!(-0.5)]),
            ("string", &texts),
            ("array", &[json!([]), json!([0])]),
            ("object", &[json!({}), json!({"a": 0})]),
        ];
        let refused = |value: &Value| {
            let answer = self.ask(at, Feed::Value(value));
            let error = answer.error();
            error.is_some_and(|error| error.is_no_type_for(&answer.expecting))
        };
        let mut possible = kinds.to_vec();
        possible.retain(|(_, values)| !values.iter().all(refused));
        let mut names: Vec<&str> = possible.iter().map(|(name, _)| *name).collect();
        if names.contains(&"number") {
            names.retain(|name| *name != "integer");
        }
        let mut schema = match names.as_slice() {
            [] => json!({}),
            [one] => json!({"type": one}),
            _ if names.len() < 6 => json!({"type": names}),
            _ => json!({}),
        };
        if names.contains(&"object")
            && let Some(tagged) = self.tagged(at)
        {
            schema = tagged;
        } else {
            describe(&mut schema, expecting);
        }
        let candidates = possible.iter().flat_map(|(_, values)| values.iter().cloned());
        let samples = self.accepted(at, candidates, 2);
        Learnt { schema, samples }
    }
}

pub(super) fn put(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(key.to_owned(), value);
    }
}

/// Notes what the visitor says of itself, where that is more than the schema says.
fn describe(schema: &mut Value, expecting: &str) {
    let usual = match expecting {
        "" | "a boolean" | "a character" | "a string" | "byte array" | "f32" | "f64" => true,
        "any value" | "any valid JSON value" | "anything at all" | "unit" => true,
        _ => {
            let integer = expecting.strip_prefix(['i', 'u']);
            let width = |text: &str| text == "size" || text.parse::<u8>().is_ok();
            expecting.starts_with("unit struct ") || integer.is_some_and(width)
        }
    };
    if !usual {
        put(schema, "description", json!(expecting));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::job::{Fsd, Uid};

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Settings {
        half_life: Fsd,
        #[serde(default)]
        weights: BTreeMap<Uid, f64>,
        #[serde(default, alias = "kind")]
        mode: Mode,
        #[serde(alias = "old")]
        new: u16,
        backup: Option<Box<Settings>>,
        range: (i8, String),
        file: Option<std::path::PathBuf>,
        jobs: Option<std::num::NonZeroU64>,
    }

    #[derive(Deserialize, Default)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Mode {
        #[default]
        Fast,
        Slow,
        Limit {
            most: u8,
        },
    }

    fn mode() -> Value {
        json!({"oneOf": [
            {"enum": ["fast", "slow"]},
            {
                "type": "object",
                "properties": {"limit": {
                    "type": "object",
                    "properties": {"most": {"type": "integer", "minimum": 0, "maximum": 255}},
                    "additionalProperties": false,
                    "required": ["most"]
                }},
                "required": ["limit"],
                "additionalProperties": false
            }
        ]})
    }

    #[test]
    fn a_struct_is_learnt_with_all_its_keys() {
        let new = json!({"type": "integer", "minimum": 0, "maximum": 65535});
        let known = [
            "half_life",
            "weights",
            "kind",
            "mode",
            "new",
            "old",
            "backup",
            "range",
            "file",
            "jobs",
        ];
        let known: Map<_, _> = known.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
        let schema = json!({
            "type": "object",
            "properties": {
                "half_life": {"type": ["number", "string"], "description": "a number or a string"},
                "weights": {"type": "object", "additionalProperties": {"type": "number"}},
                "kind": mode(),
                "mode": mode(),
                "new": new,
                "old": new,
                "backup": {"type": ["object", "null"], "properties": known, "additionalProperties": false},
                "range": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 2,
                    "prefixItems": [
                        {"type": "integer", "minimum": -128, "maximum": 127},
                        {"type": "string"}
                    ]
                },
                "file": {"type": ["string", "null"], "description": "path string"},
                "jobs": {
                    "type": ["integer", "null"],
                    "minimum": 1,
                    "maximum": u64::MAX,
                    "description": "a nonzero u64"
                }
            },
            "additionalProperties": false,
            "required": ["half_life", "range"],
            "allOf": [{"anyOf": [{"required": ["new"]}, {"required": ["old"]}]}]
        });
        assert_eq!(of::<Settings>(), schema);
    }

    #[test]
    fn a_tag_is_learnt_with_its_names() {
        #[derive(Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        #[allow(dead_code)]
        enum Rule {
            Cap { most: u8 },
            None,
        }
        let tag = json!({"properties": {"kind": {"enum": ["cap", "none"]}}, "required": ["kind"]});
        assert_eq!(of::<Rule>(), tag);
    }

    #[test]
    fn a_content_is_not_required_when_only_some_tags_need_it() {
        #[derive(Deserialize)]
        #[serde(tag = "kind", content = "with", rename_all = "lowercase")]
        #[allow(dead_code)]
        enum Rule {
            Cap(u8),
            None,
        }
        let schema = of::<Rule>();
        assert_eq!(schema.get("required"), Some(&json!(["kind"])));
    }

    #[test]
    fn a_flattened_struct_takes_any_key() {
        #[derive(Deserialize)]
        #[allow(dead_code)]
        struct Flat {
            max: u8,
            #[serde(flatten)]
            rest: BTreeMap<String, u8>,
        }
        let max = json!({"type": "integer", "minimum": 0, "maximum": 255});
        let schema = json!({"type": "object", "properties": {"max": max}});
        assert_eq!(of::<Flat>(), schema);
    }
}
