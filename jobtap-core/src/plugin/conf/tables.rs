//! The schemas of tables: which keys a struct knows, which of them it needs, what a map holds.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::enums::{STRANGER, names};
use super::error::{Fault, Names};
use super::probe::{Asked, Feed, Step};
use super::schema::{Learnt, Place, Schemer, TEXTS, put};

/// A field of a struct.
struct Field {
    /// Its name and aliases.
    names: Vec<&'static str>,
    samples: Vec<Value>,
}

impl<C: DeserializeOwned> Schemer<C> {
    pub(super) fn structure(&self, at: &Place, names: Names) -> Learnt {
        let mut schema = self.known_keys(at, names).schema;
        let mut properties = Map::new();
        let mut fields: Vec<(&str, Field)> = Vec::new();
        for &name in names {
            let learnt = self.learn(&at.entry(name));
            let main = self.main_name(at, name, learnt.samples.first());
            properties.insert(name.to_owned(), learnt.schema);
            match fields.iter_mut().find(|(other, _)| *other == main) {
                Some((_, field)) => field.names.push(name),
                None => {
                    let field = Field { names: vec![name], samples: learnt.samples };
                    fields.push((main, field));
                }
            }
        }
        put(&mut schema, "properties", Value::Object(properties));
        let fields: Vec<Field> = fields.into_iter().map(|(_, field)| field).collect();
        let sample = full(&fields);
        let (aliased, required): (Vec<_>, Vec<_>) = fields
            .iter()
            .filter(|field| self.is_needed(at, field, &fields, &sample))
            .map(|field| field.names.as_slice())
            .partition(|names| names.len() > 1);
        if !required.is_empty() {
            put(&mut schema, "required", json!(required.concat()));
        }
        if !aliased.is_empty() {
            let one_of = |names: &[&str]| {
                let each: Vec<_> = names.iter().map(|name| json!({"required": [name]})).collect();
                json!({"anyOf": each})
            };
            let all: Vec<_> = aliased.into_iter().map(one_of).collect();
            put(&mut schema, "allOf", json!(all));
        }
        Learnt { schema, samples: self.accepted(at, [Value::Object(sample)], 1) }
    }

    /// A struct of which no more is said than what its keys are.
    pub(super) fn known_keys(&self, at: &Place, fields: Names) -> Learnt {
        let properties: Map<_, _> =
            fields.iter().map(|&name| (name.to_owned(), json!({}))).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        let stranger = self.ask(at, Feed::Value(&json!({STRANGER: null})));
        if names(&stranger).is_some() {
            put(&mut schema, "additionalProperties", json!(false));
        }
        Learnt { schema, samples: Vec::new() }
    }

    /// The name that a field goes by when this may be an alias: a key that is given twice is
    /// reported by it.
    fn main_name(&self, at: &Place, name: &'static str, sample: Option<&Value>) -> &'static str {
        let Some(sample) = sample else { return name };
        let answer = self.ask(at, Feed::Twice(name, sample));
        match answer.error().map(|error| error.fault()) {
            Some(Fault::DuplicateKey(main)) => main,
            _ => name,
        }
    }

    /// Whether the field is missed, whatever the others are: that a content is needed may depend on
    /// the tag beside it.
    fn is_needed(
        &self,
        at: &Place,
        field: &Field,
        fields: &[Field],
        sample: &Map<String, Value>,
    ) -> bool {
        let missed = |table: Map<String, Value>| {
            let answer = self.ask(at, Feed::Value(&Value::Object(table)));
            match answer.error().map(|error| error.fault()) {
                Some(Fault::MissingKey(key)) => field.names.contains(key),
                _ => false,
            }
        };
        let mut rest = sample.clone();
        rest.retain(|key, _| !field.names.contains(&key.as_str()));
        let others = fields.iter().filter(|other| other.names != field.names);
        missed(rest.clone())
            && others
                .filter_map(|other| Some((other.names.first()?, other.samples.get(1..)?)))
                .flat_map(|(name, samples)| samples.iter().map(move |sample| (name, sample)))
                .all(|(name, sample)| {
                    let mut varied = rest.clone();
                    varied.insert((*name).to_owned(), sample.clone());
                    missed(varied)
                })
    }

    pub(super) fn map(&self, at: &Place) -> Learnt {
        let key = at.then(Step::Key);
        let asked = self.ask(&key, Feed::Nothing).asked;
        if asked == Some(Asked::Identifier) {
            return self.flattened(at);
        }
        let mut schema = json!({"type": "object"});
        let mut known = None;
        if let Some(Asked::Enum(..)) = asked {
            known = names(&self.ask(&key, Feed::Key(STRANGER)));
        }
        if let Some(known) = known {
            put(&mut schema, "propertyNames", json!({"enum": known}));
        }
        let is_key = |name: &&&str| self.ask(&key, Feed::Key(name)).is_ok();
        let mut keys = known.unwrap_or(&TEXTS).iter().filter(is_key);
        let Some(first) = keys.next() else {
            return Learnt { schema, samples: self.accepted(at, [json!({})], 1) };
        };
        let value = self.learn(&at.entry(first));
        // A table that is read by hand may have a different type under each key.
        let asked = |name: &str| self.ask(&at.entry(name), Feed::Nothing).asked;
        let alike = keys.next().is_none_or(|second| asked(second) == asked(first));
        let inside = at.entry(first);
        let alike = alike && !self.drops_parts(at, &inside, |part| json!({*first: part}));
        if alike && value.schema != json!({}) {
            put(&mut schema, "additionalProperties", value.schema);
        }
        let one = value.samples.into_iter().next().map(|sample| json!({*first: sample}));
        Learnt { schema, samples: self.accepted(at, one.into_iter().chain([json!({})]), 2) }
    }

    /// A struct with `#[serde(flatten)]`, which tells no keys but those that it misses.
    fn flattened(&self, at: &Place) -> Learnt {
        let mut properties = Map::new();
        let mut sample = Map::new();
        loop {
            let answer = self.ask(at, Feed::Value(&Value::Object(sample.clone())));
            let missing = match answer.error().map(|error| error.fault()) {
                Some(Fault::MissingKey(key)) if !properties.contains_key(*key) => *key,
                _ => break,
            };
            let learnt = self.learn(&at.entry(missing));
            properties.insert(missing.to_owned(), learnt.schema);
            let Some(value) = learnt.samples.into_iter().next() else {
                break;
            };
            sample.insert(missing.to_owned(), value);
        }
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            put(&mut schema, "properties", Value::Object(properties));
        }
        Learnt { schema, samples: self.accepted(at, [Value::Object(sample)], 1) }
    }
}

/// A table with all fields of which a sample is known.
fn full(fields: &[Field]) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|field| Some((field.names.first()?, field.samples.first()?)))
        .map(|(name, sample)| ((*name).to_owned(), sample.clone()))
        .collect()
}
