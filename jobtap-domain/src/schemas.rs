//! JSON Schemas of domain types such as durations and job ids, as they are written in a
//! configuration.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::job::{Fsd, JobId, JobResult, Signal, State, Timestamp, Uid, Urgency};
use crate::resource::{Hostlist, Idset, ResourceSet};

macro_rules! schemas {
    ($($name:ident: $schema:tt;)*) => { $(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )* };
}

schemas! {
    Fsd: {
        "type": ["number", "string"],
        "minimum": 0,
        "description": "Seconds, or a number with unit: ms, s, m, h or d; or \"infinity\".",
        "examples": [90, "1.5h"]
    };
    JobId: {
        "type": ["integer", "string"],
        "minimum": 0,
        "description": "A job id in any of its forms.",
        "examples": ["f2oLkTLb", 1234]
    };
    JobResult: {
        "type": ["integer", "string"],
        "description": "A result of jobs: completed, failed, canceled or timeout."
    };
    Signal: {
        "type": ["integer", "string"],
        "description": "A signal, by its name or number.",
        "examples": ["TERM", 15]
    };
    State: {
        "type": ["integer", "string"],
        "description": "A state of jobs.",
        "examples": ["sched"]
    };
    Timestamp: {
        "type": "number",
        "description": "A time, in seconds since 1970 (UTC)."
    };
    Uid: {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": 4_294_967_295_u32,
        "description": "A numeric user id."
    };
    Urgency: {
        "type": "integer",
        "minimum": 0,
        "maximum": 31,
        "description": "0 holds a job, 16 is the default, 31 expedites it."
    };
    Hostlist: {
        "type": "string",
        "description": "Names of hosts (RFC 29).",
        "examples": ["node[0-3,7]"]
    };
    Idset: {
        "type": "string",
        "description": "Numbers (RFC 22).",
        "examples": ["0-3,7"]
    };
    ResourceSet: {
        "type": "object",
        "description": "A set of resources (RFC 20)."
    };
}
