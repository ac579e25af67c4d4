//! Plugin services: requests from clients that a plugin handles by name.
//!
//! A method under `#[service("name")]` handles requests for `job-manager.PLUGIN.name` (without a name:
//! `job-manager.PLUGIN`; the leading dot of a builtin is left out). It takes a [`Request<Q>`] for any
//! `Q: Deserialize` and returns any `Serialize`, or a `Result` of one with [`ServiceError`]. A service
//! that takes a [`Responder<R>`] responds later, once or with a stream. Only the instance's owner may
//! send requests, unless the service says `role = "guest"`.
//!
//! ```
//! use jobtap_core::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct SetLimit { user: Uid, jobs: u32 }
//!
//! #[derive(Default)]
//! struct Limits { limits: std::collections::HashMap<Uid, u32> }
//!
//! #[jobtap_plugin(name = "limits")]
//! impl Limits {
//!     #[service("set")]
//!     fn set(&mut self, request: Request<SetLimit>) -> Result<usize, ServiceError> {
//!         if request.jobs == 0 {
//!             return Err(ServiceError::invalid("a limit must allow at least 1 job"));
//!         }
//!         self.limits.insert(request.user, request.jobs);
//!         Ok(self.limits.len())
//!     }
//!
//!     #[service("mine", role = "guest")]
//!     fn mine(&self, caller: Caller) -> Option<u32> {
//!         self.limits.get(&caller.userid).copied()
//!     }
//! }
//! ```

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::params::FromTopic;
use crate::host::{
    Command, Cred, Detail, Failure, Outcome, RemoteHandle, ReplyTo, ServiceError, ServiceRequest,
};
use crate::plugin::cx::call::Call;
use crate::topic::{HasRequest, TopicSet};

const EPROTO: i32 = 71;
const ENODATA: i32 = 61;
const EIO: i32 = 5;

/// The client that sent a request, as a parameter of services; an alias of [`Cred`].
pub type Caller = Cred;

/// The payload of a request, read as the service's own type `Q`. A payload that is not a `Q` is refused
/// before the service is called (`EPROTO`).
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::TestManager;
///
/// #[derive(Deserialize)]
/// struct SetLimit {
///     tasks: u64,
/// }
///
/// #[derive(Default)]
/// struct Limit {
///     tasks: u64,
/// }
///
/// #[jobtap_plugin(name = "limit")]
/// impl Limit {
///     #[service("set")]
///     fn set(&mut self, request: Request<SetLimit>) -> Result<u64, ServiceError> {
///         if request.tasks == 0 {
///             return Err(ServiceError::invalid("a limit must allow at least 1 task"));
///         }
///         Ok(std::mem::replace(&mut self.tasks, request.tasks))
///     }
/// }
/// # let mut m = TestManager::new().plugin::<Limit>().start();
/// # assert_eq!(m.call_service("limit.set", serde_json::json!({"tasks": 4})).unwrap(), 0);
/// # assert!(m.call_service("limit.set", serde_json::json!({"tasks": -1})).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<Q>(Q);

impl<Q> Request<Q> {
    /// The payload.
    pub fn into_inner(self) -> Q {
        self.0
    }
}

impl<Q> std::ops::Deref for Request<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.0
    }
}

/// A type that a request's payload can be read as: any that is `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read from a request",
    label = "not `Deserialize`",
    note = "derive it: `#[derive(Deserialize)]`"
)]
pub trait Payload: Sized {
    /// Reads the payload.
    ///
    /// # Errors
    /// Serde's error.
    fn read(payload: &Value) -> Result<Self, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<Q: DeserializeOwned> Payload for Q {
    fn read(payload: &Value) -> Result<Self, serde_json::Error> {
        Q::deserialize(payload)
    }
}

fn request<'a, T: TopicSet>(call: &Call<'a, T>) -> Result<&'a ServiceRequest, Failure> {
    match call.args.detail {
        Detail::Request(request) => Ok(request),
        _ => Err(Failure::Input("the host gave no request")),
    }
}

impl<'a, P, T: HasRequest, Q: Payload> FromTopic<'a, P, T> for Request<Q> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Q::read(&request(call)?.payload)
            .map(Request)
            .map_err(|error| Failure::Refused(ServiceError::new(EPROTO, error.to_string())))
    }
}

impl<'a, P, T: HasRequest> FromTopic<'a, P, T> for Cred {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(request(call)?.cred)
    }
}

impl<'a, P, T: HasRequest, R: Serialize> FromTopic<'a, P, T> for Responder<R> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let request = request(call)?;
        // From here on the return value of the service is not the response.
        request.taken.set(true);
        Ok(Responder {
            to: request.to,
            remote: call.args.host.remote(),
            streaming: request.streaming,
            open: true,
            kind: PhantomData,
        })
    }
}

/// Sends the response to a request, now or later, from any thread: once, or as a stream.
///
/// Dropping it ends a stream normally (`ENODATA`), and fails a request that has had no response (`EIO`).
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::TestManager;
///
/// /// Streams the ids of new jobs.
/// #[derive(Default)]
/// struct News {
///     readers: Vec<Responder<JobId>>,
/// }
///
/// #[jobtap_plugin(name = "news")]
/// impl News {
///     #[service("read")]
///     fn read(&mut self, reader: Responder<JobId>) {
///         self.readers.push(reader);
///     }
///
///     #[on("job.new")]
///     fn new_job(&mut self, job: &Job) -> Result<(), HandlerError> {
///         for reader in &mut self.readers {
///             reader.send(&job.id()).map_err(|error| HandlerError::new(error.text))?;
///         }
///         Ok(())
///     }
/// }
/// # use jobtap_core::testing::TestJob;
/// # let mut m = TestManager::new().plugin::<News>().start();
/// # let stream = m.open_stream("news.read", serde_json::json!({}));
/// # m.submit(TestJob::new()).unwrap();
/// # assert_eq!(m.read_stream(stream).0.len(), 1);
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the response"]
pub struct Responder<R> {
    to: ReplyTo,
    remote: RemoteHandle,
    streaming: bool,
    open: bool,
    kind: PhantomData<fn(R)>,
}

impl<R: Serialize> Responder<R> {
    /// Whether the client requested a stream. If not, the first [`send`](Self::send) is the response.
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// Sends a response. Without a stream the first is the only one; later ones are dropped.
    ///
    /// # Errors
    /// When `R` can't be written as JSON.
    pub fn send(&mut self, answer: &R) -> Result<(), ServiceError> {
        let payload = serde_json::to_value(answer)?;
        if self.streaming {
            self.remote.commands(vec![Command::Respond { to: self.to, payload }]);
        } else {
            self.end(Ok(payload));
        }
        Ok(())
    }

    /// Ends the response with an error.
    pub fn fail(mut self, error: ServiceError) {
        self.end(Err(error));
    }
}

impl<R> Responder<R> {
    fn end(&mut self, result: Result<Value, ServiceError>) {
        // `fail` ends the response and then drops the responder, which would end it again.
        if std::mem::take(&mut self.open) {
            self.remote.commands(vec![Command::Answer { to: self.to, result }]);
        }
    }
}

impl<R> Drop for Responder<R> {
    fn drop(&mut self) {
        let end = if self.streaming {
            ServiceError::new(ENODATA, "")
        } else {
            ServiceError::new(EIO, "the plugin gave no answer")
        };
        self.end(Err(end));
    }
}

/// An error that a service can return: a [`ServiceError`].
#[diagnostic::on_unimplemented(
    message = "a service can't fail with `{Self}`",
    label = "not an error that goes to a client",
    note = "fail with `ServiceError`, which has an errno and a sentence; `?` converts any `std::error::Error` into it, and `.or_error()?` any other error"
)]
pub trait Refusal {
    /// The error.
    fn refusal(self) -> ServiceError;
}

impl Refusal for ServiceError {
    fn refusal(self) -> ServiceError {
        self
    }
}

/// Marks the implementation of [`IntoReply`] for values. Without it and [`Fallible`], the two
/// implementations would overlap.
pub enum Plain {}

/// Marks the implementation of [`IntoReply`] for results.
pub enum Fallible {}

/// Types that a service may return.
#[diagnostic::on_unimplemented(
    message = "a service can't return `{Self}`",
    label = "can't be written as JSON",
    note = "derive it: `#[derive(Serialize)]`; a service returns any `Serialize`, or a `Result` of one with `ServiceError`"
)]
pub trait IntoReply<Kind> {
    /// Makes the response.
    ///
    /// # Errors
    /// The service's own error.
    fn into_reply(self) -> Result<Value, ServiceError>;
}

#[diagnostic::do_not_recommend]
impl<R: Serialize> IntoReply<Plain> for R {
    fn into_reply(self) -> Result<Value, ServiceError> {
        Ok(serde_json::to_value(self)?)
    }
}

#[diagnostic::do_not_recommend]
impl<R: Serialize> IntoReply<Fallible> for Result<R, ServiceError> {
    fn into_reply(self) -> Result<Value, ServiceError> {
        self.and_then(IntoReply::<Plain>::into_reply)
    }
}

/// Makes the outcome of a service; called by the code that `#[jobtap_plugin]` generates.
#[doc(hidden)]
pub fn reply<T: HasRequest, R: IntoReply<K>, K>(
    call: &Call<'_, T>,
    answer: R,
) -> Result<Outcome, Failure> {
    let value = answer.into_reply().map_err(Failure::Refused)?;
    if request(call)?.taken.get() {
        return Ok(Outcome::default());
    }
    Ok(Outcome::reply(or_empty(value)))
}

/// Flux's responses are objects or empty, so a service that returns nothing responds with `{}`.
pub(super) fn or_empty(value: Value) -> Value {
    if value.is_null() { json!({}) } else { value }
}
