//! The schemas of enums: by name, by a table of one key, by a tag.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{Fault, Names};
use super::probe::{Answer, Asked, Feed, Step};
use super::schema::{Learnt, Place, Schemer};

/// A name that no type knows.
pub(super) const STRANGER: &str = "\u{1}";

/// The names that would be known, when a stranger was refused.
pub(super) fn names(answer: &Answer) -> Option<Names> {
    match answer.error()?.fault() {
        Fault::UnknownValue(_, names) | Fault::UnknownKey(names) => Some(names),
        _ => None,
    }
}

impl<C: DeserializeOwned> Schemer<C> {
    /// An enum in serde's usual form: `"name"`, or `{name = ..}` with what it holds.
    pub(super) fn choice(&self, at: &Place, variants: Names) -> Learnt {
        let mut units: Vec<&str> = Vec::new();
        let mut choices = Vec::new();
        let mut samples = Vec::new();
        for &variant in variants {
            let inside = at.then(Step::Variant(variant));
            match self.ask(&inside, Feed::Nothing).asked {
                None => return Learnt::nothing(),
                Some(Asked::UnitVariant) => {
                    units.push(variant);
                    samples.push(json!(variant));
                }
                Some(_) => {
                    let payload = self.learn(&inside);
                    choices.push(json!({
                        "type": "object",
                        "properties": {variant: payload.schema},
                        "required": [variant],
                        "additionalProperties": false
                    }));
                    let payloads = payload.samples.into_iter();
                    samples.extend(payloads.map(|payload| json!({variant: payload})));
                }
            }
        }
        if !units.is_empty() {
            choices.insert(0, json!({"enum": units}));
        }
        Learnt { schema: self.one_of(at, choices), samples: self.accepted(at, samples, usize::MAX) }
    }

    fn one_of(&self, at: &Place, mut choices: Vec<Value>) -> Value {
        let stranger = self.ask(at, Feed::Value(&json!(STRANGER)));
        if names(&stranger).is_none() {
            // `#[serde(other)]` takes every name, but nothing with it.
            let holds = self.ask(at, Feed::Value(&json!({STRANGER: null})));
            let alone = holds.error().map(|error| error.fault());
            return match alone {
                Some(Fault::InvalidType(_)) => {
                    choices.push(json!({"type": "string"}));
                    json!({"anyOf": choices})
                }
                _ => json!({}),
            };
        }
        match choices.as_slice() {
            [] => json!({}),
            [only] => only.clone(),
            _ => json!({"oneOf": choices}),
        }
    }

    /// A name alone, as the tag of an enum is.
    pub(super) fn identifier(&self, at: &Place) -> Learnt {
        let stranger = self.ask(at, Feed::Value(&json!(STRANGER)));
        let Some(names) = names(&stranger) else {
            return Learnt {
                schema: json!({"type": "string"}),
                samples: self.accepted(at, [json!(STRANGER)], 1),
            };
        };
        let samples = self.accepted(at, names.iter().map(|name| json!(name)), usize::MAX);
        Learnt { schema: json!({"enum": names}), samples }
    }

    /// An enum whose variant is named by a key beside its own: serde keeps the rest for itself, so
    /// that the tag is all that can be seen.
    pub(super) fn tagged(&self, at: &Place) -> Option<Value> {
        let empty = self.ask(at, Feed::Value(&json!({})));
        let Fault::MissingKey(tag) = *empty.error()?.fault() else {
            return None;
        };
        let inside = at.entry(tag);
        let asked = self.ask(&inside, Feed::Nothing).asked;
        if asked != Some(Asked::Identifier) {
            return None;
        }
        let variants = self.identifier(&inside).schema;
        // Without a `type`, since an array that begins with the tag is read too.
        Some(json!({"properties": {tag: variants}, "required": [tag]}))
    }
}
