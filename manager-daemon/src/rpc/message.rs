//! The messages: a request or a response is one line of JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::errno::ENODATA;
use super::{RpcError, RpcResult};

/// A request to a service. Generic, so that a client writes its fields at once as the line that is sent,
/// without a copy of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request<P = Value> {
    /// Chosen by the client. The responses have the same id.
    pub id: u64,
    /// The name of the service, such as `job-manager.raise`.
    pub topic: String,
    /// The fields of the request.
    #[serde(default)]
    pub payload: P,
    /// Whether a stream of responses is requested. The last one is ENODATA or another error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
}

/// A response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The request's id.
    pub id: u64,
    /// The payload, or the refusal.
    pub result: RpcResult,
}

/// A response as it is on the wire. Generic, so that it is written from borrowed parts and read as owned
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
    /// What plugins say to the user beside an error; beside a payload they are part of it.
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
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
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
        encode(self).unwrap_or_default()
    }
}

/// One message as the line that goes over the wire, newline included.
///
/// # Errors
/// When the payload can't be written as JSON: it has a key that is not a string.
pub fn encode<T: Serialize>(message: &T) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    Ok(line)
}

/// A line from the wire as a message; the error is a sentence.
pub fn decode<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| format!("malformed message: {error}"))
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
        fn a_request_survives_the_wire(id: u64, topic in ".*", payload in payloads(), stream: bool) {
            let request = Request { id, topic, payload, stream };
            let line = encode(&request).unwrap();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(decode::<Request>(line.as_bytes()).unwrap(), request);
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
            prop_assert_eq!(decode::<Response>(response.encode().as_bytes()).unwrap(), response);
        }

        #[test]
        fn junk_is_refused_in_words(line in any::<Vec<u8>>()) {
            for error in [decode::<Request>(&line).unwrap_err(), decode::<Response>(&line).unwrap_err()] {
                prop_assert!(error.starts_with("malformed message: "), "{}", error);
            }
        }
    }

    #[test]
    fn the_wire_form_is_the_documented_one() {
        let request =
            Request { id: 7, topic: "a.b".into(), payload: json!({"k": 1}), stream: true };
        assert_eq!(
            encode(&request).unwrap(),
            "{\"id\":7,\"topic\":\"a.b\",\"payload\":{\"k\":1},\"stream\":true}\n"
        );
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

    #[test]
    fn payload_and_stream_may_be_left_out() {
        let request: Request = decode(br#"{"id":1,"topic":"x"}"#).unwrap();
        assert_eq!(request.payload, Value::Null);
        assert!(!request.stream);
    }
}
