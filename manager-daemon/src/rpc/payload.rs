//! From the payload of a request to its type, with refusals that name the topic and the field.
//!
//! A derived `Deserialize` reads the fields in the order of the payload and reports missing ones last.
//! Here they are read in the order in which the type declares them, so that the first one that is
//! missing or malformed is refused, whatever order a client writes them in. `null` counts as missing,
//! and keys that the type does not have are ignored, as in Flux.

use std::collections::HashMap;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use super::RpcError;

/// The request to the service `topic` that has this payload. A payload that is no object has no fields.
///
/// # Errors
/// EPROTO, as `TOPIC: 'FIELD' is missing` or `TOPIC: 'FIELD': REASON`.
pub fn decode<T: DeserializeOwned>(topic: &str, payload: &RawValue) -> Result<T, RpcError> {
    T::deserialize(Payload(payload)).map_err(|fault| RpcError::proto(format!("{topic}: {fault}")))
}

/// As [`decode`], in one pass over the payload if nothing is wrong with it. For requests with a long field, of which
/// each pass takes longer than everything else about the payload, and without a field whose type takes `null`, which
/// would not count as missing here.
///
/// # Errors
/// As [`decode`].
pub fn decode_long<T: DeserializeOwned>(topic: &str, payload: &RawValue) -> Result<T, RpcError> {
    let text = payload.get();
    // Serde would also accept an array of the fields.
    let read = text.starts_with('{').then(|| serde_json::from_str(text));
    match read {
        Some(Ok(request)) => Ok(request),
        _ => decode(topic, payload),
    }
}

/// Reads an optional field as its default when it is missing. `#[serde(default)]` has no effect on
/// requests: their fields are read as a sequence, which [`decode`] ends only after the last one.
pub(super) fn or_default<'de, D, T>(field: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(field).map(Option::unwrap_or_default)
}

struct Payload<'de>(&'de RawValue);

/// Why a payload is refused, without its topic.
#[derive(Debug)]
struct Fault(String);

impl Fault {
    fn missing(field: &str) -> Self {
        Self(format!("'{field}' is missing"))
    }

    /// Without the line and column: clients send one line, and the field is named.
    fn of(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Self(text.strip_suffix(&place).unwrap_or(&text).to_owned())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

impl<'de> Deserializer<'de> for Payload<'de> {
    type Error = Fault;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let text = self.0.get();
        let payload = match text.starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| Fault::of(&error))?,
            false => HashMap::new(),
        };
        visitor.visit_seq(Fields { names: fields.iter(), payload })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut text = serde_json::Deserializer::from_str(self.0.get());
        text.deserialize_any(visitor).map_err(|error| Fault::of(&error))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields of a request, in the order of its declaration.
struct Fields<'de> {
    names: std::slice::Iter<'static, &'static str>,
    payload: HashMap<String, &'de RawValue>,
}

impl<'de> SeqAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(name) = self.names.next() else { return Ok(None) };
        match self.payload.get(*name).map(|value| value.get()) {
            None | Some("null") => seed.deserialize(Missing(name)).map(Some),
            Some(text) => {
                let read = seed.deserialize(&mut serde_json::Deserializer::from_str(text));
                let fault = |error| Fault(format!("'{name}': {}", Fault::of(&error)));
                read.map(Some).map_err(fault)
            }
        }
    }
}

/// A field that is not in the payload: `None` for an `Option`, an error for any other type.
struct Missing(&'static str);

impl<'de> Deserializer<'de> for Missing {
    type Error = Fault;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_none()
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Fault> {
        Err(Fault::missing(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Request {
        id: u64,
        #[serde(rename = "type")]
        kind: String,
        reason: Option<String>,
        #[serde(deserialize_with = "or_default")]
        force: bool,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Whole(Value);

    fn read<T: DeserializeOwned>(payload: &Value) -> Result<T, RpcError> {
        decode("a.b", &to_raw_value(payload).unwrap())
    }

    fn refusal(payload: Value) -> String {
        read::<Request>(&payload).unwrap_err().text
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = "[a-z]{0,3}".prop_map(Value::from);
        prop_oneof![Just(Value::Null), any::<u8>().prop_map(Value::from), text, Just(json!([1]))]
    }

    proptest! {
        #[test]
        fn one_pass_reads_the_same(
            fields in prop::collection::vec(
                (prop::sample::select(vec!["id", "type", "reason", "force", "other"]), any_value()),
                0..7,
            ),
        ) {
            // As text, so that a field can occur twice.
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let payload = RawValue::from_string(format!("{{{}}}", fields.join(","))).unwrap();
            let text = |error: RpcError| error.text;
            let in_one_pass = decode_long::<Request>("a.b", &payload).map_err(text);
            prop_assert_eq!(in_one_pass, decode("a.b", &payload).map_err(text));
        }
    }

    #[test]
    fn optional_fields_may_be_missing_or_null() {
        let request: Request = read(&json!({"type": "x", "id": 7})).unwrap();
        assert_eq!(request, Request { id: 7, kind: "x".to_owned(), reason: None, force: false });
        let null = json!({"id": 7, "type": "x", "reason": null, "force": null, "other": [1]});
        assert_eq!(read::<Request>(&null).unwrap(), request);
    }

    #[test]
    fn the_first_declared_field_that_is_wrong_is_named() {
        assert_eq!(refusal(json!({"type": 5})), "a.b: 'id' is missing");
        assert_eq!(refusal(json!({"id": null, "type": "x"})), "a.b: 'id' is missing");
        assert_eq!(refusal(json!({"id": 1})), "a.b: 'type' is missing");
        let malformed = "a.b: 'type': invalid type: integer `5`, expected a string";
        assert_eq!(refusal(json!({"force": "x", "type": 5, "id": 1})), malformed);
    }

    #[test]
    fn a_payload_that_is_no_object_has_no_fields() {
        for payload in [json!(null), json!("x"), json!([1, "x"])] {
            assert_eq!(refusal(payload), "a.b: 'id' is missing");
        }
    }

    #[test]
    fn a_newtype_is_the_whole_payload() {
        for payload in [json!({"a": {"b": 1.5}}), json!(5), json!(null)] {
            assert_eq!(read::<Whole>(&payload).unwrap(), Whole(payload));
        }
    }
}
