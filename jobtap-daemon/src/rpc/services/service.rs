//! `service.*`: programs that add services to the manager.
//!
//! A program adds a service with a streaming request to `service.add`. Each response is a request of a plugin or of a
//! client of the owner, which the program answers by `service.respond`. The service ends with the stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::payload::or_default;

/// Adds a service, as a stream of the requests to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// Its name, which is the first word of its topics: `dws` gets the requests to `dws.create` and `dws.setup`.
    pub service: String,
}

/// A request to a service that a program has added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceRequest {
    /// Names the request in the response; 0 if none is expected.
    pub to: u64,
    /// The topic.
    pub topic: String,
    /// The payload; null for a request without one.
    #[serde(default)]
    pub payload: Value,
}

/// The response of a program to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Respond {
    /// The request.
    pub to: u64,
    /// The payload of the response.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// An error number of errno.h, if the request has failed; otherwise 0.
    #[serde(default, deserialize_with = "or_default")]
    pub errnum: i32,
    /// What is wrong.
    #[serde(default, deserialize_with = "or_default")]
    pub errstr: String,
}
