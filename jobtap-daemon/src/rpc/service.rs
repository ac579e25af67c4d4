//! The properties of a service that both ends of the socket know: the types of its request and response,
//! its topic, who may call it and what the manager records of a call.
//!
//! A request is its service: `client.call(Kill { id, signum })` sends it to `job-manager.kill`, and the
//! compiler knows the type of the response. The services themselves are in [`services`](super::services).

use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{MAX_ARRAY, MAX_REQUEST};

/// A request, and with it the service that it is sent to.
///
/// Implemented only by the rows of the table in [`services`](super::services).
pub trait Service: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The response; in a stream, each of them.
    ///
    /// Keys that the type does not have are ignored, so that the manager may add some.
    type Response: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// The name of the service on the wire.
    const TOPIC: &'static str;
    /// Who may call it.
    const ACCESS: Access;
    /// How many responses a request has, and when they come.
    const RESPONSES: Responses;
    /// How large a request may be.
    const SIZE: Size;

    /// The job that this request is about, if it is about one. Guests of a manager that hides jobs
    /// (`access.private-mode`) may name only their own jobs.
    fn job(&self) -> Option<JobId>;

    /// Takes the jobspec out of a submission, to be sent beside its payload.
    fn take_jobspec(&mut self) -> Option<String> {
        None
    }

    /// What the manager's audit log (`admin.eventlog`) records of this request when the owner
    /// sends it. `None` for a request that changes nothing, or whose change is in a job's eventlog.
    fn audited(&self) -> Option<Audited>;
}

/// How large the requests of a service may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A short payload.
    Normal,
    /// A whole message: a job with its files, a configuration.
    Large,
    /// The elements of a job array.
    Array,
}

impl Size {
    /// The maximum number of bytes without the header.
    pub const fn most(self) -> usize {
        match self {
            Self::Normal => 1 << 20,
            Self::Large => MAX_REQUEST,
            Self::Array => MAX_ARRAY,
        }
    }
}

/// Who may call a service. The handler checks what depends on the request, such as a job's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every user, and every client of the HTTP listener, even without a token. The service changes
    /// nothing.
    Reader,
    /// Every user.
    Anyone,
    /// As [`Reader`](Self::Reader), except for guests of a manager that hides jobs
    /// (`access.private-mode`): the response is about the jobs of all users.
    UnlessPrivate,
    /// The instance owner.
    Owner,
}

/// How many responses a request has, and when they come. From this, the daemon derives the share of a
/// connection's limits that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Responses {
    /// One short response that comes soon.
    Short,
    /// One response that may be long.
    Long,
    /// One response, or the events of one job, for which a client may wait for days.
    Late,
    /// A stream, until its request fails or the client leaves.
    Stream,
    /// A stream where the request asks for one, otherwise one response that may be long.
    LongOrStream,
    /// The responses of a plugin: one or a stream, soon or late, short or long.
    Plugin,
}

/// An event of the manager's audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audited {
    /// The name of the event.
    pub event: &'static str,
    /// The fields of the request that its context repeats, if they are given.
    pub fields: &'static [&'static str],
}

impl Audited {
    /// The event with this name and these fields of the request, for requests that are always recorded.
    pub(super) const fn new(event: &'static str, fields: &'static [&'static str]) -> Option<Self> {
        Some(Self { event, fields })
    }
}
