//! The messages.
//!
//! A request is a header, which is one line of JSON, and the bytes that the header announces: the payload, and in a
//! submission the jobspec beside it. So the manager need not parse a request to find its end, and reads a jobspec, which
//! is most of a submission, only once. A response is one line of JSON: a list of jobs is written while it is made, so its
//! size isn't known when it begins.
//!
//! ```text
//! {"id":7,"topic":"job-ingest.submit","size":14,"jobspec_size":612}
//! {"urgency":16}{"version":1,"resources":[ ...
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errno::ENODATA;
use super::service::Service;
use super::{RpcError, RpcResult};

/// The header of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header<'a> {
    /// Chosen by the client. The responses have the same id.
    pub id: u64,
    /// The name of the service, such as `job-manager.raise`.
    #[serde(borrow)]
    pub topic: Cow<'a, str>,
    /// The size of the payload in bytes; 0 for a request without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: usize,
    /// The size of the jobspec after the payload, in bytes; 0 for any request but a submission.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jobspec_size: usize,
    /// Whether a stream of responses is requested. The last one is ENODATA or another error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// The payload, where clients of the first version of the protocol wrote it.
    #[serde(default, skip_serializing)]
    pub payload: Option<PayloadInHeader>,
}

/// A payload in a header. It is not read: without it, the request would mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadInHeader;

impl<'de> Deserialize<'de> for PayloadInHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

fn is_zero(size: &usize) -> bool {
    *size == 0
}

/// What follows the header of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// The payload, which should be JSON. The text is empty for a request without a payload.
    pub payload: String,
    /// The text of a jobspec.
    pub jobspec: Option<String>,
}

impl Body {
    /// The body with this payload.
    ///
    /// # Errors
    /// The payload can't be written as JSON, because it has a key that is not a string.
    pub fn of_payload(payload: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self { payload: serde_json::to_string(payload)?, jobspec: None })
    }

    /// The body of a request to its service.
    ///
    /// # Errors
    /// As [`of_payload`](Self::of_payload).
    pub fn of_request<S: Service>(mut request: S) -> Result<Self, serde_json::Error> {
        let jobspec = request.take_jobspec();
        Ok(Self { jobspec, ..Self::of_payload(&request)? })
    }

    /// The payload as JSON.
    ///
    /// # Errors
    /// EPROTO: it is not JSON.
    pub fn json(&self) -> Result<&RawValue, RpcError> {
        if self.payload.is_empty() {
            return Ok(RawValue::NULL);
        }
        serde_json::from_str(&self.payload)
            .map_err(|error| RpcError::proto(format!("malformed message: {error}")))
    }

    /// The request with this body, as it goes over the wire.
    pub fn into_request(self, id: u64, topic: &str, stream: bool) -> String {
        let jobspec = self.jobspec.unwrap_or_default();
        let (size, jobspec_size) = (self.payload.len(), jobspec.len());
        let header = Header { id, topic: topic.into(), size, jobspec_size, stream, payload: None };
        // Can't fail: all keys are strings.
        let header = serde_json::to_string(&header).unwrap_or_default();
        [&header, "\n", &self.payload, &jobspec].concat()
    }
}

/// A response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The request's id.
    pub id: u64,
    /// The payload, or the refusal.
    pub result: RpcResult,
}

/// A response in its wire form. Generic, so that it is written from borrowed parts and read into owned
/// ones, without a copy of the payload.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "P: Serialize, T: Serialize, M: Serialize + AsRef<[String]>"))]
struct WireResponse<P, T, M> {
    id: u64,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    payload: Option<P>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    error: Option<T>,
    /// Messages from plugins to the user that come with an error. In a payload, they are one of its
    /// fields.
    #[serde(default, skip_serializing_if = "is_empty")]
    messages: M,
}

fn none<T>() -> Option<T> {
    None
}

fn is_empty<M: AsRef<[String]>>(messages: &M) -> bool {
    messages.as_ref().is_empty()
}

impl Serialize for Response {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (payload, errno, error) = (None, None, None);
        let mut wire = WireResponse { id: self.id, payload, errno, error, messages: &[][..] };
        match &self.result {
            Ok(payload) => wire.payload = Some(payload),
            Err(error) => {
                wire.errno = Some(error.errno);
                wire.error = Some(&*error.text);
                wire.messages = &error.messages;
            }
        }
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireResponse::<Value, String, Vec<String>>::deserialize(deserializer)?;
        let result = match wire.errno {
            Some(errno) => {
                let text = wire.error.unwrap_or_default();
                Err(RpcError { errno, text, messages: wire.messages })
            }
            None => Ok(wire.payload.unwrap_or_default()),
        };
        Ok(Self { id: wire.id, result })
    }
}

impl Response {
    /// The response that ends a stream.
    pub fn end_of_stream(id: u64) -> Self {
        Self { id, result: Err(RpcError::new(ENODATA, "")) }
    }
}

impl Response {
    /// The response as the line that goes over the wire, newline included.
    pub fn encode(&self) -> String {
        // Can't fail: the payload is JSON already.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// The id of the response in a line, of which only the part up to the id is read; it comes first in the lines that
/// [`Response::encode`] makes. `None` if there is no id.
pub fn id_of_response(line: &[u8]) -> Option<u64> {
    let mut id = None;
    // The rest of the line, which was not read, counts as an error.
    let _ = IdOfResponse(&mut id).deserialize(&mut serde_json::Deserializer::from_slice(line));
    id
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum ResponseKey {
    Id,
    #[serde(other)]
    Other,
}

/// Reads an object up to its id, and puts the id here.
struct IdOfResponse<'a>(&'a mut Option<u64>);

impl<'de> DeserializeSeed<'de> for IdOfResponse<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IdOfResponse<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a response")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key()? {
            match key {
                ResponseKey::Id => {
                    *self.0 = Some(map.next_value()?);
                    break;
                }
                ResponseKey::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A line that is not a header or not a response.
#[derive(Debug, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(#[from] serde_json::Error);

/// Decodes a line from the wire: a [`Header`] or a [`Response`].
///
/// # Errors
/// The line is neither JSON nor of this type.
pub fn decode<'de, T: Deserialize<'de>>(line: &'de [u8]) -> Result<T, Malformed> {
    Ok(serde_json::from_slice(line)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn payloads() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_request_survives_the_wire(
            id: u64,
            topic in ".*",
            payload in payloads(),
            jobspec in proptest::option::of(".+"),
            stream: bool,
        ) {
            let body = Body { jobspec, ..Body::of_payload(&payload).unwrap() };
            let request = body.clone().into_request(id, &topic, stream);
            let (header, rest) = request.split_once('\n').unwrap();
            let header: Header<'_> = decode(header.as_bytes()).unwrap();
            prop_assert_eq!((header.id, &*header.topic, header.stream), (id, &*topic, stream));
            let (payload, jobspec) = rest.split_at(header.size);
            prop_assert_eq!(jobspec.len(), header.jobspec_size);
            let jobspec = Some(jobspec.to_owned()).filter(|jobspec| !jobspec.is_empty());
            prop_assert_eq!(Body { payload: payload.to_owned(), jobspec }, body);
        }

        #[test]
        fn a_response_survives_the_wire(
            id: u64,
            payload in payloads(),
            errno: i32,
            (text, messages) in (".*", proptest::collection::vec(".*", 0..3)),
            ok: bool,
        ) {
            let result = if ok { Ok(payload) } else { Err(RpcError { errno, text, messages }) };
            let response = Response { id, result };
            let line = response.encode();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(decode::<Response>(line.as_bytes()).unwrap(), response);
            prop_assert_eq!(id_of_response(line.as_bytes()), Some(id));
        }

        #[test]
        fn junk_is_refused_in_words(line in any::<Vec<u8>>()) {
            let header = decode::<Header<'_>>(&line).unwrap_err().to_string();
            let response = decode::<Response>(&line).unwrap_err().to_string();
            for error in [header, response] {
                prop_assert!(error.starts_with("malformed message: "), "{}", error);
            }
        }
    }

    #[test]
    fn the_id_of_a_response_is_known_without_the_rest() {
        for (line, id) in [
            ("{\"id\":7,\"payload\":[not read", Some(7)),
            ("{ \"payload\": {\"id\": 1}, \"id\": 7 }", Some(7)),
            ("{\"id\":-7}", None),
            ("{\"payload\":7}", None),
            ("7", None),
        ] {
            assert_eq!(id_of_response(line.as_bytes()), id, "{line}");
        }
    }

    #[test]
    fn the_wire_form_is_the_documented_one() {
        let body = Body { payload: json!({"k": 1}).to_string(), jobspec: Some("{}".to_owned()) };
        assert_eq!(
            body.into_request(7, "a.b", true),
            "{\"id\":7,\"topic\":\"a.b\",\"size\":7,\"jobspec_size\":2,\"stream\":true}\n{\"k\":1}{}"
        );
        assert_eq!(Body::default().into_request(7, "a", false), "{\"id\":7,\"topic\":\"a\"}\n");
        let response = Response { id: 7, result: Err(RpcError::new(22, "no")) };
        assert_eq!(response.encode(), "{\"id\":7,\"errno\":22,\"error\":\"no\"}\n");
        let messages = vec!["why".to_owned()];
        let response =
            Response { id: 7, result: Err(RpcError { messages, ..RpcError::new(22, "no") }) };
        assert_eq!(
            response.encode(),
            "{\"id\":7,\"errno\":22,\"error\":\"no\",\"messages\":[\"why\"]}\n"
        );
    }

    /// A command of the first version of the protocol sent its payload in the header.
    #[test]
    fn the_greeting_of_an_older_command_is_a_header_without_payload() {
        let greeting = br#"{"id":0,"topic":"hello","payload":{"protocol":1}}"#;
        let header: Header<'_> = decode(greeting).unwrap();
        assert_eq!((&*header.topic, header.size), ("hello", 0));
        assert!(header.payload.is_some());
        assert_eq!(Body::default().json().unwrap().get(), "null");
    }
}
