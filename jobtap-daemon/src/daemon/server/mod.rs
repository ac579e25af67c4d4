//! The manager's socket: accepts connections, authenticates their clients, and passes requests to the
//! services.
//!
//! What a client sends, or does not read, takes a bounded amount of memory and delays no other client. A
//! connection is read only while fewer than a window of its requests are in flight and its unread
//! responses are below their bound; the rest stays in the socket. What all connections of a user may take
//! together is in `shares`, and which client's request the engine takes next in `engine/intake`.

#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
pub(super) mod requests;
mod responses;
pub(super) mod shares;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobtap_core::engine::{Cred, Level};
use jobtap_core::job::Uid;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use self::requests::{ReceivedRequest, Refused, Requests};
use self::responses::{Held, Outbox, Responder, outbox};
use self::shares::{Charge, Seat, Shares};
use super::engine::EngineHandle;
use super::engine::intake::Source;
use super::request_parts::RequestParts;
use super::rights::privacy::Claim;
use super::services::eventlog;
use super::services::ingest::JOBSPEC_SPARE;
use super::services::{self, Context, PendingResponse};
use crate::open_files::OpenFiles;
use crate::rpc::errno::{EAGAIN, EINVAL, EPERM};
use crate::rpc::message::{Body, Response};
use crate::rpc::service;
use crate::rpc::{HELLO, PROTOCOL, RpcError, RpcResult};

/// The maximum number of requests in flight on a connection: accepted, and without their last response. Enough for the
/// store to commit hundreds of them together.
const WINDOW: usize = 1024;
/// The same for services of plugins, whose responses may be long.
const SERVICES: usize = 64;
/// How long all places must be taken before further clients are refused.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(10);
/// How long a refused client has to read the reason.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The administrator's role in a rolemask, as Flux numbers it.
const ROLE_ADMIN: u32 = 8;
/// The owner's role.
const ROLE_OWNER: u32 = 1;

/// What is left to do for a request after its handler has taken it in.
type Remainder = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves connections until it is dropped, at most `room` at once; more clients wait until one of them
/// ends.
pub(super) async fn serve(listener: UnixListener, parts: Arc<RequestParts>, room: usize) {
    let mut connections = JoinSet::new();
    let shares: Arc<Shares> = Shares::new(room);
    let mut warned = false;
    let mut full_since = None;
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= room {
            if !warned {
                parts.log.write(Level::Warning, &format!("{}: others wait", full(room)));
            }
            warned = true;
            let late = *full_since.get_or_insert_with(Instant::now) + WAIT_FOR_ROOM;
            let is_late = late <= Instant::now();
            tokio::select! {
                biased;
                _ = connections.join_next() => {}
                () = tokio::time::sleep_until(late.into()), if !is_late => {}
                // Those who wait could wait forever, since the clients that are served may wait for something, too.
                accepted = listener.accept(), if is_late => match accepted {
                    Ok((socket, _)) => refuse(&socket, RpcError::new(EAGAIN, format!(
                        "{}: end some of the commands that wait or watch, run fewer at once, or start the manager with \
                         a higher limit (LimitNOFILE, or ulimit -n)",
                        full(room)
                    ))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
            continue;
        }
        full_since = None;
        warned = warned && connections.len() > room / 2;
        match listener.accept().await {
            Ok((socket, _)) => {
                if let Some(connection) = Connection::new(&socket, &parts, &shares) {
                    let (read, write) = socket.into_split();
                    connections.spawn(connection.run(read, write));
                }
            }
            // Out of file descriptors. Some will be closed, so the loop continues, but slowly.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn full(room: usize) -> String {
    let limit = OpenFiles::of_this_process().own();
    format!("{room} connections are as many as the limit of {limit} open files has room for")
}

/// Tells a client that gets no place why. The buffer of a new socket has room for one line.
fn refuse(socket: &UnixStream, error: RpcError) {
    let answer = Response { id: 0, result: Err(error) }.encode();
    let _ = socket.try_write(answer.as_bytes());
}

/// What a connection is read from.
pub(super) trait Incoming: AsyncRead + Unpin + Send {
    /// Waits until the client has left, while nothing is read.
    fn left(&self) -> impl Future<Output = ()> + Send;
}

impl Incoming for OwnedReadHalf {
    async fn left(&self) {
        // Ready at a hangup. `READABLE` would be ready as soon as the client sends its next request.
        let _ = self.ready(Interest::PRIORITY).await;
    }
}

/// One client.
pub(super) struct Connection {
    parts: Arc<RequestParts>,
    shares: Arc<Shares>,
    seat: Seat,
    cred: Cred,
    claim: Claim,
    engine: EngineHandle,
    window: Arc<Semaphore>,
    /// One permit: requests whose responses may be long are served one after the other.
    long_responses: Arc<Semaphore>,
    plugin_services: Arc<Semaphore>,
    /// Whether a request other than `hello` was received.
    asked: bool,
    /// Requests in flight. They are dropped with the connection, since nothing can be sent to its client.
    running: JoinSet<()>,
}

/// Why a connection is no longer read.
enum End {
    /// The client left.
    Left,
    /// It sent something that is not a request.
    Refused(Refused),
}

impl Connection {
    /// Takes a place for the connection. Without one the client gets a refusal, and the result is `None`.
    fn new(socket: &UnixStream, parts: &Arc<RequestParts>, shares: &Arc<Shares>) -> Option<Self> {
        let userid = Uid::new(socket.peer_cred().ok()?.uid());
        Self::of_user(userid, parts, shares).inspect_err(|error| refuse(socket, error.clone())).ok()
    }

    /// Takes a place for a connection of this user.
    ///
    /// # Errors
    /// The user may not connect, or has no place left.
    pub(super) fn of_user(
        userid: Uid,
        parts: &Arc<RequestParts>,
        shares: &Arc<Shares>,
    ) -> Result<Self, RpcError> {
        let cred = parts.access.cred(userid, parts.owner)?;
        let seat = shares.seat(cred)?;
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Ok(Self {
            parts: Arc::clone(parts),
            shares: Arc::clone(shares),
            seat,
            cred,
            claim: Claim::Nothing,
            engine: parts.engine.of_client(source(userid)),
            window: semaphore(WINDOW),
            long_responses: semaphore(1),
            plugin_services: semaphore(SERVICES),
            asked: false,
            running: JoinSet::new(),
        })
    }

    /// Serves the client until it leaves.
    pub(super) async fn run(mut self, read: impl Incoming, write: impl AsyncWrite + Unpin + Send) {
        let (outbox, writer) = outbox();
        let mut writing = std::pin::pin!(writer.run(write));
        let end = tokio::select! {
            biased;
            end = self.read(Requests::new(read, JOBSPEC_SPARE), &outbox) => end,
            () = &mut writing => End::Left,
        };
        // Requests that the engine has not begun are dropped first, then those that wait are abandoned. In the
        // other order an abandonment, which is on the manager's own queue, could overtake its request, and the
        // engine would then begin a request that no client waits for.
        self.engine.leave();
        self.running.shutdown().await;
        if let End::Refused(Refused { id, error }) = end {
            let last = async {
                Responder::new(id, outbox, Held::default()).last(Err(error)).await;
                writing.await;
            };
            let _ = tokio::time::timeout(LAST_WORD, last).await;
        }
    }

    /// Accepts requests until the client leaves or sends something that is not a request.
    async fn read(&mut self, mut requests: Requests<impl Incoming>, outbox: &Outbox) -> End {
        loop {
            while self.running.try_join_next().is_some() {}
            let place = unless_left(requests.source(), async {
                outbox.has_room().await;
                take(&self.window).await
            });
            let Some(place) = place.await else { return End::Left };
            let ReceivedRequest { id, topic, stream, body, mut charge } =
                match requests.next(self.seat.share()).await {
                    Some(Ok(request)) => request,
                    Some(Err(refused)) => return End::Refused(refused),
                    None => return End::Left,
                };
            let mut held = Held(Vec::from_iter(place));
            if topic == HELLO {
                let result = self.hello(&body);
                Responder::new(id, outbox.clone(), held).last(result).await;
                continue;
            }
            self.asked = true;
            if !self.cred.owner
                && unless_left(requests.source(), self.await_guest()).await.is_none()
            {
                return End::Left;
            }
            let request = match services::admit(&self.parts, self.cred, self.claim, &topic, body) {
                Ok(request) => request,
                Err(error) => {
                    let responder = Responder::new(id, outbox.clone(), held);
                    self.running.spawn(async move { responder.last(Err(error)).await });
                    continue;
                }
            };
            let more = unless_left(requests.source(), self.places(request.responses, stream));
            let refused = match more.await {
                Some(Ok(Places::InWindow(more))) => {
                    held.0.extend(more);
                    None
                }
                // A request that may wait for days must not take a place in the window, or its user's bytes, all that
                // time. The number of such requests is limited by permits of their own.
                Some(Ok(Places::Waiting(place))) => {
                    held.0 = vec![place];
                    charge = Charge::default();
                    None
                }
                Some(Err(error)) => Some(error),
                None => return End::Left,
            };
            let responder = Responder::new(id, outbox.clone(), held);
            let work: Option<Remainder> = match refused {
                Some(error) => Some(Box::pin(async move { responder.last(Err(error)).await })),
                None => self.take_in(request, stream, responder, charge),
            };
            if let Some(work) = work {
                self.running.spawn(work);
            }
        }
    }

    /// Waits before a guest's request is taken in: until its turn under `access.guest-request-rate`, and until it is
    /// known whether the guest is an administrator.
    async fn await_guest(&self) {
        if let Some(rate) = self.parts.access.rate(self.cred) {
            tokio::time::sleep(self.seat.share().pace(Instant::now(), rate)).await;
        }
        self.parts.privacy.learn(self.cred).await;
    }

    /// Waits for the permits that a request needs besides its place in the window.
    async fn places(
        &self,
        responses: service::Responses,
        streaming: bool,
    ) -> Result<Places, RpcError> {
        use service::Responses::{Late, Long, LongOrStream, Plugin, Short, Stream};

        let share = self.seat.share();
        Ok(match responses {
            Short => Places::InWindow(None),
            Stream => Places::Waiting(share.stream()?),
            LongOrStream | Plugin if streaming => Places::Waiting(share.stream()?),
            Long | LongOrStream => Places::InWindow(take(&self.long_responses).await),
            Plugin => Places::InWindow(take(&self.plugin_services).await),
            Late => Places::Waiting(share.wait()?),
        })
    }

    /// Hands a request to its handler. This happens here, not in the task of the request, so that requests
    /// reach the engine in the order in which the client sent them. A request to the engine with a short response
    /// needs no task.
    fn take_in(
        &self,
        mut request: services::Admitted,
        streaming: bool,
        responder: Responder,
        charge: Charge,
    ) -> Option<Remainder> {
        let (cred, claim) = self.who();
        let context = Context { parts: &self.parts, engine: &self.engine, cred, claim, streaming };
        let (change, responses) = (request.change.take(), request.responses);
        let handled = request.handle(&context);
        // Only a single response is recorded: a service that is audited has no stream.
        debug_assert!(
            change.is_none()
                || matches!(
                    handled,
                    Err(_) | Ok(PendingResponse::FromEngine(_) | PendingResponse::One(_))
                )
        );
        let parts = Arc::clone(&self.parts);
        let audit = Arc::clone(&parts.audit);
        Some(match handled {
            Err(error) => Box::pin(async move { responder.last(Err(error)).await }),
            Ok(PendingResponse::FromEngine(request))
                if change.is_none() && responses == service::Responses::Short =>
            {
                let respond = move |result| responder.short(result, charge);
                self.engine.request_then(cred, request, Box::new(respond));
                return None;
            }
            Ok(PendingResponse::FromEngine(request)) => {
                let response = self.engine.request(cred, request);
                Box::pin(respond(audit.recorded(cred, change, response), charge, responder))
            }
            Ok(PendingResponse::One(response)) => {
                let response = async { Ok(response.await) };
                Box::pin(respond(audit.recorded(cred, change, response), charge, responder))
            }
            Ok(PendingResponse::Jobs(listing)) => Box::pin(async move {
                match listing.await {
                    Ok(listing) => responder.listing(listing),
                    Err(error) => responder.last(Err(error)).await,
                }
            }),
            Ok(PendingResponse::EngineStream(stream)) => Box::pin(relay(stream, responder)),
            Ok(PendingResponse::Feed(feed)) => Box::pin(feed_on(feed, responder)),
            Ok(PendingResponse::Eventlog(request)) => {
                let engine = self.engine.clone();
                Box::pin(async move {
                    let RequestParts { records, hub, .. } = &*parts;
                    let end =
                        eventlog::serve(records, hub, &engine, cred, &request, &responder).await;
                    responder.last(Err(end)).await;
                })
            }
        })
    }

    fn who(&self) -> (Cred, Claim) {
        (self.cred, self.claim)
    }

    /// Responds to `hello`, in which the owner may ask to be treated as another user.
    fn hello(&mut self, body: &Body) -> RpcResult {
        let (mut cred, mut claim) = self.who();
        let payload = serde_json::from_str(body.json()?.get());
        let payload = payload.map_err(|error| RpcError::proto(format!("hello: {error}")))?;
        let answer = hello(&payload, &mut cred, &mut claim)?;
        if (cred, claim) != self.who() {
            if self.asked {
                let text = "hello: another user is named before anything is asked for";
                return Err(RpcError::new(EINVAL, text));
            }
            self.seat = self.shares.seat(cred)?;
            self.engine = self.parts.engine.of_client(source(cred.userid));
            (self.cred, self.claim) = (cred, claim);
        }
        Ok(answer)
    }
}

/// The permits of a request.
enum Places {
    /// The place in the window, and possibly another permit.
    InWindow(Option<OwnedSemaphorePermit>),
    /// Another permit in place of the one in the window.
    Waiting(OwnedSemaphorePermit),
}

async fn take(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // An error would mean that the semaphore is closed, which never happens.
    Arc::clone(places).acquire_owned().await.ok()
}

/// Waits for `what` unless the client leaves first. While it waits, the socket isn't read, so a hangup would
/// go unnoticed and the waiting request would stay.
async fn unless_left<T>(client: &impl Incoming, what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = what => Some(done),
        () = client.left() => None,
    }
}

/// Returns the source of a new client of this user: a queue of its own at the engine.
pub(super) fn source(user: Uid) -> Source {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    Source::Client { user, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) }
}

/// Waits for the only response, and sends it.
async fn respond(response: impl Future<Output = RpcResult>, charge: Charge, responder: Responder) {
    let result = response.await;
    drop(charge);
    responder.last(result).await;
}

/// Passes on the responses of the engine until the last one, or until the client has left.
async fn relay(mut stream: super::engine::replies::ReplyStream, responder: Responder) {
    loop {
        match stream.next().await {
            Ok(response) => {
                if responder.send(response).await.is_err() {
                    return;
                }
            }
            Err(end) => return responder.last(Err(end)).await,
        }
    }
}

/// Passes on the responses of another part of the manager until the last one, or until the client has
/// left.
async fn feed_on(mut feed: Receiver<RpcResult>, responder: Responder) {
    while let Some(response) = feed.recv().await {
        match response {
            Ok(response) => {
                if responder.send(response).await.is_err() {
                    return;
                }
            }
            Err(end) => return responder.last(Err(end)).await,
        }
    }
}

/// Compares the versions of the protocol. The owner may ask to be treated as another user, which tests of
/// guests need.
fn hello(payload: &Value, cred: &mut Cred, claim: &mut Claim) -> RpcResult {
    let number = |key: &str| payload.get(key).and_then(Value::as_u64).map(u32::try_from);
    match payload.get("protocol").and_then(Value::as_u64) {
        Some(PROTOCOL) => {}
        _ => return Ok(json!({ "protocol": PROTOCOL })),
    }
    let asked = (number("userid"), number("rolemask"));
    if asked != (None, None) {
        let (Ok(userid), Ok(mask)) =
            (asked.0.unwrap_or(Ok(cred.userid.as_u32())), asked.1.unwrap_or(Ok(ROLE_OWNER)))
        else {
            return Err(RpcError::new(EINVAL, "hello: userid and rolemask are 32 bit numbers"));
        };
        let wanted = Cred { userid: Uid::new(userid), owner: mask & ROLE_OWNER != 0 };
        let claimed = if mask & ROLE_ADMIN != 0 { Claim::Admin } else { Claim::Nothing };
        // The roles of guests are those that the configuration gives them.
        if !cred.owner && (wanted, claimed) != (*cred, *claim) {
            return Err(RpcError::new(EPERM, "only the owner may act as another user"));
        }
        (*cred, *claim) = (wanted, claimed);
    }
    Ok(json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };

    #[test]
    fn only_the_owner_may_act_as_another_user() {
        let as_guest = json!({"protocol": PROTOCOL, "userid": 7, "rolemask": 2});
        let (mut cred, mut claim) = (OWNER, Claim::Nothing);
        hello(&as_guest, &mut cred, &mut claim).unwrap();
        assert_eq!((cred, claim), (Cred { userid: Uid::new(7), owner: false }, Claim::Nothing));
        for (userid, rolemask) in [(1000, 1), (7, 10)] {
            let back = json!({"protocol": PROTOCOL, "userid": userid, "rolemask": rolemask});
            assert_eq!(hello(&back, &mut cred, &mut claim).unwrap_err().errno, EPERM);
        }
    }

    #[test]
    fn the_owner_may_act_as_an_administrator_too() {
        let as_admin = json!({"protocol": PROTOCOL, "userid": 7, "rolemask": 10});
        let (mut cred, mut claim) = (OWNER, Claim::Nothing);
        hello(&as_admin, &mut cred, &mut claim).unwrap();
        assert_eq!((cred, claim), (Cred { userid: Uid::new(7), owner: false }, Claim::Admin));
    }

    #[test]
    fn a_client_of_another_version_gets_our_version_and_no_role() {
        let (mut cred, mut claim) = (OWNER, Claim::Nothing);
        let newer = json!({"protocol": PROTOCOL + 1, "userid": 7});
        let answer = hello(&newer, &mut cred, &mut claim).unwrap();
        assert_eq!(answer["protocol"], PROTOCOL);
        assert_eq!(cred, OWNER);
    }
}
