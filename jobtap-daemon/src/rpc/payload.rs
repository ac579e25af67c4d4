//! Decodes the payload of a request into its type, with refusals that name the topic and the field.
//!
//! A derived `Deserialize` reads the fields in the order of the payload and reports missing ones last. Here they are
//! read in the order in which the type declares them, so that the first missing or malformed field is refused,
//! whatever order a client writes them in. `null` counts as missing, and keys that the type does not have are
//! ignored, as in Flux. A key that occurs twice is refused: the code that checks a request and the code that carries
//! it out must not read different values.

use std::collections::HashMap;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use super::RpcError;

/// Decodes the payload of a request to the service `topic`. A payload that is not an object has no fields.
///
/// # Errors
/// EPROTO, as `TOPIC: 'FIELD' is missing`, `TOPIC: 'FIELD' occurs twice` or `TOPIC: 'FIELD': REASON`.
pub fn decode<T: DeserializeOwned>(topic: &str, payload: &RawValue) -> Result<T, RpcError> {
    T::deserialize(Payload(payload)).map_err(|fault| RpcError::proto(format!("{topic}: {fault}")))
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
    fn from_json_error(error: &serde_json::Error) -> Self {
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
        let mut members = serde_json::Deserializer::from_str(text);
        let payload = match text.starts_with('{') {
            true => members
                .deserialize_map(Known(fields))
                .map_err(|error| Fault::from_json_error(&error))?,
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
        text.deserialize_any(visitor).map_err(|error| Fault::from_json_error(&error))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Reads the members of an object that have these names, each of which may occur once.
struct Known(&'static [&'static str]);

impl<'de> Visitor<'de> for Known {
    type Value = HashMap<&'static str, &'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut members = HashMap::new();
        while let Some((key, value)) = access.next_entry::<String, &RawValue>()? {
            let known = self.0.iter().find(|name| **name == key);
            if let Some(name) = known
                && members.insert(*name, value).is_some()
            {
                return Err(de::Error::custom(format_args!("'{name}' occurs twice")));
            }
        }
        Ok(members)
    }
}

/// The fields of a request, in the order of its declaration.
struct Fields<'de> {
    names: std::slice::Iter<'static, &'static str>,
    payload: HashMap<&'static str, &'de RawValue>,
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
                let fault = |error| Fault(format!("'{name}': {}", Fault::from_json_error(&error)));
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

    #[test]
    fn a_field_that_occurs_twice_is_refused() {
        let twice = |text: &str| {
            let payload = RawValue::from_string(text.to_owned()).unwrap();
            decode::<Request>("a.b", &payload).map_err(|error| error.text)
        };
        let refusal = Err("a.b: 'id' occurs twice".to_owned());
        assert_eq!(twice(r#"{"id":7,"type":"x","\u0069d":8}"#), refusal);
        assert!(twice(r#"{"id":7,"type":"x","other":1,"other":2}"#).is_ok());
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
