//! Responses: JSON, refusals with the HTTP status of their error number, and bodies that come part by part.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use crate::rpc::RpcError;
use crate::rpc::errno::*;

/// The body of a response.
pub(super) type Content = UnsyncBoxBody<Bytes, std::io::Error>;

/// The headers of every response. They keep browsers from guessing another type, storing or framing the response, and
/// letting another site use it.
const ALWAYS: [(HeaderName, &str); 5] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// A response of this type.
pub(super) fn response(
    status: StatusCode,
    kind: &'static str,
    content: Content,
) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A body that is sent as a whole.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Content {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A JSON response.
pub(super) fn json_response(status: StatusCode, value: &Value) -> Response<Content> {
    response(status, "application/json", whole(value.to_string()))
}

/// The refusal of a request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: RpcError,
}

impl Refusal {
    /// A refusal with a status of its own.
    pub(super) fn with(status: StatusCode, error: RpcError) -> Self {
        Self { status, error }
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn into_response(self) -> Response<Content> {
        let mut response = json_response(self.status, &shown(&self.error));
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self { status: status_of(error.errno), error }
    }
}

/// A refusal as JSON.
pub(super) fn shown(error: &RpcError) -> Value {
    let (errno, words) = (error.errno, error.to_string());
    match error.messages.as_slice() {
        [] => json!({ "errno": errno, "error": words }),
        messages => json!({ "errno": errno, "error": words, "messages": messages }),
    }
}

/// The status of an error number.
fn status_of(errno: i32) -> StatusCode {
    match errno {
        EPERM | EACCES => StatusCode::FORBIDDEN,
        ENOENT | ESRCH | ECHILD | ENODATA | ENOSYS => StatusCode::NOT_FOUND,
        EINVAL | EPROTO | ENAMETOOLONG | ENOTDIR | EISDIR | ELOOP | EOPNOTSUPP => {
            StatusCode::BAD_REQUEST
        }
        EEXIST | EBUSY | EDEADLK => StatusCode::CONFLICT,
        EMSGSIZE => StatusCode::PAYLOAD_TOO_LARGE,
        EAGAIN => StatusCode::TOO_MANY_REQUESTS,
        ENOSPC => StatusCode::INSUFFICIENT_STORAGE,
        ENOMEM | ECONNREFUSED | EHOSTUNREACH => StatusCode::SERVICE_UNAVAILABLE,
        ETIMEDOUT => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The future that makes the parts of a body. It is dropped with the body when the client has left.
pub(super) type PartMaker = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body whose parts are made while it is read.
pub(super) struct PartedBody {
    parts: Receiver<Result<Bytes, std::io::Error>>,
    work: Option<PartMaker>,
}

impl PartedBody {
    /// A body of the parts that `work` sends. It ends when `work` does.
    pub(super) fn body(parts: Receiver<Result<Bytes, std::io::Error>>, work: PartMaker) -> Content {
        Self { parts, work: Some(work) }.boxed_unsync()
    }
}

impl Body for PartedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let this = &mut *self;
        if let Some(work) = &mut this.work
            && work.as_mut().poll(context).is_ready()
        {
            this.work = None;
        }
        // After the work, which sends what is received here.
        this.parts.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_refusal_has_its_number_its_words_and_a_status() {
        for (errno, status) in [(EPERM, 403), (ENOENT, 404), (EPROTO, 400), (EIO, 500), (4711, 500)]
        {
            assert_eq!(Refusal::from(RpcError::new(errno, "")).status(), status);
        }
        let error = RpcError { errno: EINVAL, text: String::new(), messages: vec!["m".to_owned()] };
        let expected = json!({"errno": 22, "error": "Invalid argument", "messages": ["m"]});
        assert_eq!(shown(&error), expected);
    }

    #[tokio::test]
    async fn a_body_has_all_parts_that_its_work_makes() {
        let (sender, parts) = channel(1);
        let work = async move {
            for part in ["a", "b", "c"] {
                sender.send(Ok(Bytes::from(part))).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let body = PartedBody::body(parts, Box::pin(work)).collect().await.unwrap();
        assert_eq!(body.to_bytes(), "abc");
    }
}
