//! Types that accept what a part of them refused, as one that falls back to a default: what their
//! parts ask for says nothing of what may stand there.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::enums::STRANGER;
use super::probe::{Asked, Feed, Step};
use super::schema::{Place, Schemer};

/// A value of each kind, with the kind's name, that hardly any type has a use for.
fn strangers() -> [(&'static str, Value); 6] {
    [
        ("null", json!(null)),
        ("boolean", json!(true)),
        ("number", json!(0.5)),
        ("string", json!(STRANGER)),
        ("array", json!([])),
        ("object", json!({STRANGER: null})),
    ]
}

impl<C: DeserializeOwned> Schemer<C> {
    /// Whether the type takes a kind of value that the reader refuses to what it asked for.
    pub(super) fn falls_back(&self, at: &Place, asked: &Asked) -> bool {
        let kinds: &[&str] = match asked {
            Asked::Bool => &["boolean"],
            Asked::Integer { .. } | Asked::Number => &["number"],
            Asked::Char | Asked::Text | Asked::Identifier => &["string"],
            Asked::Bytes => &["string", "array"],
            Asked::Null => &["null"],
            Asked::Seq | Asked::Tuple(_) => &["array"],
            Asked::Map | Asked::Struct(..) => &["object"],
            Asked::Enum(..) => &["string", "object"],
            Asked::Option => {
                let some = at.then(Step::Some);
                return strangers()
                    .iter()
                    .any(|(kind, value)| *kind != "null" && self.hides(at, value, &some, value));
            }
            Asked::Any | Asked::Ignored | Asked::UnitVariant => return false,
        };
        let mut others = strangers().into_iter();
        others.any(|(kind, value)| {
            !kinds.contains(&kind) && self.ask(at, Feed::Value(&value)).is_ok()
        })
    }

    /// Whether an array or table takes parts that the type of its parts refuses.
    pub(super) fn drops_parts(
        &self,
        at: &Place,
        part: &Place,
        whole: impl Fn(&Value) -> Value,
    ) -> bool {
        let mut parts = strangers().into_iter();
        parts.any(|(_, value)| self.hides(at, &whole(&value), part, &value))
    }

    fn hides(&self, at: &Place, whole: &Value, inside: &Place, part: &Value) -> bool {
        self.ask(inside, Feed::Value(part)).error().is_some()
            && self.ask(at, Feed::Value(whole)).is_ok()
    }
}
