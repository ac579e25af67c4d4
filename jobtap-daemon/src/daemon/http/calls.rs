//! Requests to services: handled as on the socket, within limits of their own.
//!
//! A connection has one request at a time, so requests need no window. Long waits and streams are counted for all
//! clients of a kind together, as they are for each user on the socket.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response, StatusCode};
use jobtap_core::engine::Cred;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot::error::RecvError;

use super::guard::{Client, malformed};
use super::places::AtWork;
use super::responses::{Content, PartedBody, Refusal, json_response, response, shown};
use super::shared::{Http, LIFE, Peer};
use crate::daemon::engine::EngineHandle;
use crate::daemon::request_parts::RequestParts;
use crate::daemon::rights::privacy::Claim;
use crate::daemon::server::shares::{Charge, Share};
use crate::daemon::server::source;
use crate::daemon::services::eventlog::{self, Sink};
use crate::daemon::services::listing::Listing;
use crate::daemon::services::{self, Admitted, Context, PendingResponse};
use crate::rpc::errno::{EAGAIN, EMSGSIZE, EPERM, ETIMEDOUT};
use crate::rpc::message::Body;
use crate::rpc::service::Responses;
use crate::rpc::{MAX_REQUEST, RpcError, RpcResult};

/// How long a client may take to send the content of a request.
const CONTENT_TIME: Duration = Duration::from_secs(30);
/// The interval of the comments that show that a stream is alive, and by which a client that has left is noticed.
const BEAT: Duration = Duration::from_secs(15);
/// The maximum size of a request's content from a client without the token, in bytes, so that all connections together
/// take up no one else's share.
const CONTENT_OF_READERS: usize = 64 * 1024;
/// How many parts of a response may wait for the client to read them.
const WAITING_PARTS: usize = 8;

/// Where the parts of a body go. An error means that the client has left.
type Out = Sender<Result<Bytes, std::io::Error>>;

/// What a request holds until its last response is written.
struct Held {
    /// First, and so dropped first: requests that the engine has not begun are dropped before those that wait are
    /// abandoned.
    _leaving: Leaving,
    _place: Option<OwnedSemaphorePermit>,
    _at_work: AtWork,
}

/// When this is dropped, drops the client's requests.
struct Leaving(EngineHandle);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Carries out a request to a service.
pub(super) async fn call(
    http: &Http,
    client: Client,
    peer: &Peer,
    topic: &str,
    request: Request<Incoming>,
    at_work: AtWork,
) -> Result<Response<Content>, Refusal> {
    let (cred, share) = http.who(client, peer);
    if client == Client::Reader && !services::is_for_readers(topic) && services::is_known(topic) {
        let words = match http.has_token {
            true => format!("{topic} needs the token: Authorization: Bearer TOKEN"),
            false => format!("{topic} needs a token, and none is configured (http.token-file)"),
        };
        return Err(RpcError::new(EPERM, words).into());
    }
    if let Some(rate) = http.parts.access.rate(cred) {
        tokio::time::sleep(share.pace(Instant::now(), rate)).await;
    }
    let streaming = wants_stream(request.headers());
    let most = match client {
        Client::Owner => services::size(topic).most().min(MAX_REQUEST),
        Client::Reader => CONTENT_OF_READERS,
    };
    let (body, charge) = content(topic, most, request, share).await?;
    let mut admitted = services::admit(&http.parts, cred, Claim::Nothing, topic, body)?;
    let streaming = streaming || admitted.responses == Responses::Stream;
    let place = match admitted.responses {
        Responses::Short | Responses::Long => None,
        Responses::Late => Some(share.wait()?),
        Responses::Stream => Some(stream(client, share, &at_work)?),
        Responses::LongOrStream | Responses::Plugin if streaming => {
            Some(stream(client, share, &at_work)?)
        }
        Responses::LongOrStream => None,
        Responses::Plugin => Some(share.wait()?),
    };
    let engine = http.parts.engine.of_client(source(cred.userid));
    let held = Held { _leaving: Leaving(engine.clone()), _place: place, _at_work: at_work };
    let change = admitted.change.take();
    let claim = Claim::Nothing;
    let context = Context { parts: &http.parts, engine: &engine, cred, claim, streaming };
    let result = match handle(admitted, &context) {
        Ok(Handled::One(response)) => {
            Arc::clone(&http.parts.audit).recorded(cred, change, response).await
        }
        Ok(Handled::Body(body)) => return body.into_response(http, client, cred, held).await,
        Err(error) => Err(error),
    };
    drop(charge);
    drop(held);
    Ok(json_response(StatusCode::OK, &result?))
}

/// Whether a client asks for server-sent events.
fn wants_stream(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"))
}

/// Takes a place for a stream.
fn stream(
    client: Client,
    share: &Share,
    at_work: &AtWork,
) -> Result<OwnedSemaphorePermit, RpcError> {
    let place = share.stream()?;
    if client == Client::Reader {
        at_work.stream()?;
    }
    Ok(place)
}

/// Reads the content of a request for this topic, of at most `most` bytes, and charges it to the client's share. No
/// content counts as an empty object.
pub(super) async fn content(
    topic: &str,
    most: usize,
    request: Request<Incoming>,
    share: &Share,
) -> Result<(Body, Charge), Refusal> {
    let too_long = || {
        let words = format!("{topic}: a payload of more than {most} bytes is refused");
        Refusal::from(RpcError::new(EMSGSIZE, words))
    };
    let size = request.body().size_hint();
    if size.lower() > most as u64 {
        return Err(too_long());
    }
    let json = request.headers().get(CONTENT_TYPE).is_some_and(|kind| is_json(kind.as_bytes()));
    let mut charge = Charge::default();
    let bytes = size.exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(most);
    share.charge(&mut charge, bytes).await?;
    let collected = Limited::new(request.into_body(), most).collect();
    let read = match tokio::time::timeout(CONTENT_TIME, collected).await {
        Ok(Ok(read)) => read.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long()),
        Ok(Err(error)) => return Err(malformed(format!("the content can't be read: {error}"))),
        Err(_) => {
            let error = RpcError::new(ETIMEDOUT, "the content of the request takes too long");
            return Err(Refusal::with(StatusCode::REQUEST_TIMEOUT, error));
        }
    };
    if read.trim_ascii().is_empty() {
        return Ok((Body { payload: "{}".to_owned(), jobspec: None }, charge));
    }
    if !json {
        let error = RpcError::proto("the content of a request has the type application/json");
        return Err(Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    let payload = String::from_utf8(read.into()).map_err(|error| malformed(error.to_string()))?;
    let body = Body { payload, jobspec: None };
    if !body.json()?.get().starts_with('{') {
        let words = format!(
            "{topic}: the content of a request is a JSON object with its fields, such as {{\"max_entries\": 10}}; \
             without fields, {{}} or nothing"
        );
        return Err(RpcError::proto(words).into());
    }
    Ok((body, charge))
}

fn is_json(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// The kind of response to a request.
enum Handled {
    One(Pin<Box<dyn Future<Output = Result<RpcResult, RecvError>> + Send>>),
    Body(Streamed),
}

/// Responses that are written part by part.
enum Streamed {
    Jobs(Pin<Box<dyn Future<Output = Result<Listing, RpcError>> + Send>>),
    Events(PendingResponse),
}

/// Hands a request to its handler.
fn handle(admitted: Admitted, context: &Context<'_>) -> Result<Handled, RpcError> {
    Ok(match admitted.handle(context)? {
        PendingResponse::FromEngine(request) => {
            Handled::One(Box::pin(context.engine.request(context.cred, request)))
        }
        PendingResponse::One(response) => Handled::One(Box::pin(async { Ok(response.await) })),
        PendingResponse::Jobs(listing) => Handled::Body(Streamed::Jobs(listing)),
        events => Handled::Body(Streamed::Events(events)),
    })
}

impl Streamed {
    async fn into_response(
        self,
        http: &Http,
        client: Client,
        cred: Cred,
        held: Held,
    ) -> Result<Response<Content>, Refusal> {
        match self {
            Self::Jobs(listing) => {
                let listing = listing.await?;
                let (out, parts) = channel(1);
                let body = PartedBody::body(parts, Box::pin(list(listing, out, held)));
                Ok(response(StatusCode::OK, "application/json", body))
            }
            Self::Events(events) => {
                let (out, parts) = channel(WAITING_PARTS);
                let beats = out.clone();
                let manager = Arc::clone(&http.parts);
                let stream = async move {
                    let events = async {
                        match events {
                            PendingResponse::EngineStream(mut stream) => loop {
                                match stream.next().await {
                                    Ok(event) if send(&out, &event).await.is_ok() => {}
                                    Ok(_) => break None,
                                    Err(end) => break Some(end),
                                }
                            },
                            PendingResponse::Feed(mut feed) => loop {
                                match feed.recv().await {
                                    Some(Ok(event)) if send(&out, &event).await.is_ok() => {}
                                    Some(Err(end)) => break Some(end),
                                    Some(Ok(_)) | None => break None,
                                }
                            },
                            PendingResponse::Eventlog(request) => {
                                let engine = manager.engine.of_client(source(cred.userid));
                                let RequestParts { records, hub, .. } = &*manager;
                                let sink = Events(&out);
                                let watch =
                                    eventlog::serve(records, hub, &engine, cred, &request, &sink);
                                Some(watch.await)
                            }
                            // Those with one response are handled above.
                            PendingResponse::FromEngine(_)
                            | PendingResponse::One(_)
                            | PendingResponse::Jobs(_) => None,
                        }
                    };
                    // Without an end, the client has left.
                    let Some(end) = within_life(client, events).await else { return };
                    let text = format!("event: end\ndata: {}\n\n", shown(&end));
                    let _ = out.send(Ok(text.into())).await;
                };
                Ok(events_of(parts, beats, stream, held))
            }
        }
    }
}

/// Waits for the end of a stream, which comes after [`LIFE`] at the latest for a client without the token.
async fn within_life(
    client: Client,
    events: impl Future<Output = Option<RpcError>>,
) -> Option<RpcError> {
    match client {
        Client::Owner => events.await,
        Client::Reader => tokio::time::timeout(LIFE, events).await.unwrap_or_else(|_| {
            let minutes = LIFE.as_secs() / 60;
            let text =
                format!("a stream without the token ends after {minutes} minutes: ask again");
            Some(RpcError::new(EAGAIN, text))
        }),
    }
}

/// A response of server-sent events: what `stream` sends to `parts`, with a sign of life from `beats` in between.
fn events_of(
    parts: Receiver<Result<Bytes, std::io::Error>>,
    beats: Out,
    stream: impl Future<Output = ()> + Send + 'static,
    held: Held,
) -> Response<Content> {
    let work = async move {
        let _held = held;
        let beat = async {
            loop {
                tokio::time::sleep(BEAT).await;
                if beats.send(Ok(Bytes::from_static(b":\n\n"))).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = stream => {}
            () = beat => {}
        }
    };
    response(StatusCode::OK, "text/event-stream", PartedBody::body(parts, Box::pin(work)))
}

/// Sends one event, JSON without line breaks. An error means that the client has left.
async fn send(out: &Out, event: impl std::fmt::Display) -> Result<(), ()> {
    out.send(Ok(format!("data: {event}\n\n").into())).await.map_err(drop)
}

/// The events of a stream.
struct Events<'a>(&'a Out);

impl Sink for Events<'_> {
    async fn send_text(&self, event: &str) -> Result<(), ()> {
        send(self.0, event).await
    }
}

/// Sends a list of jobs part by part.
async fn list(mut listing: Listing, out: Out, held: Held) {
    let _held = held;
    let mut before = "{\"jobs\":[";
    loop {
        let part = match listing.next().await {
            Ok(Some(part)) => Ok(Bytes::from(format!("{before}{part}"))),
            Ok(None) => {
                let _ = out.send(Ok(Bytes::from(format!("{before}]}}")))).await;
                return;
            }
            // The object has begun and can't be taken back: the connection is closed within it.
            Err(error) => Err(std::io::Error::other(error)),
        };
        let failed = part.is_err();
        if out.send(part).await.is_err() || failed {
            return;
        }
        before = "";
    }
}
