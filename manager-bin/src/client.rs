//! The commands' end of a connection to the manager.
//!
//! Any number of requests share one connection: one task writes them, another one reads the responses
//! and hands each to the request that waits for it.
//!
//! While responses to a stream wait to be taken, the connection is not read, so that the manager sends no
//! more and a command needs little memory, however long the stream is. Code that takes such a stream must not
//! await anything else on the same connection between two responses. Short streams are [read
//! ahead](Client::stream_ahead).

pub(crate) mod listing;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

pub use crate::rpc::RpcError;
use crate::rpc::errno::{ECONNRESET, ENODATA, EPROTO};
use crate::rpc::message::{Body, Response, decode, id_of_response};
use crate::rpc::service::Service;
use crate::rpc::{self, HELLO, PROTOCOL, uri};

/// How long the program at the address of `FLUX_URI` gets to show that it is a manager.
const GREETING: Duration = Duration::from_secs(2);
/// How many responses of a stream may wait to be taken.
const WAITING_RESPONSES: usize = 256;
/// The same for lines of output, each of which may have hundreds of thousands of bytes.
const WAITING_LINES: usize = 4;
/// How long a manager may have no room for another connection, before the command gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many bytes are read from the connection at once.
const READ: usize = 256 * 1024;
/// The pause between two attempts to connect to a manager that has no room.
const PAUSE: Duration = Duration::from_millis(50);

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address in the environment.
    #[error("no manager here: JOBTAP_URI is not set; start one with `jobtap start`")]
    NoUri,
    /// An address that is not understood.
    #[error("{0}: {1}")]
    BadUri(&'static str, uri::UriError),
    /// The socket is missing or dead.
    #[error("no manager listens at {}: it has ended, or JOBTAP_URI is old", .0.display())]
    NothingListens(PathBuf),
    /// The socket belongs to another user.
    #[error("the manager at {} belongs to another user; only its owner may connect", .0.display())]
    OtherUser(PathBuf),
    /// Manager and command are of different versions.
    #[error(
        "the manager at {} speaks protocol {theirs}, this command {PROTOCOL}: use the jobtap that started it",
        path.display()
    )]
    Version {
        /// The socket.
        path: PathBuf,
        /// The manager's protocol version.
        theirs: u64,
    },
    /// The manager refused the greeting.
    #[error("the manager at {} refuses: {reason}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The reason that it gives.
        reason: RpcError,
    },
    /// The socket's backlog is full, and has not had room in time.
    #[error(
        "the manager at {} serves as many connections as its limit of open files has room for, and many others \
         wait: end some of the commands that wait or watch, run fewer at once, or start the manager with a higher \
         limit (LimitNOFILE, or ulimit -n)",
        .0.display()
    )]
    Full(PathBuf),
    /// Anything else that the system reports.
    #[error("can't connect to the manager at {}: {reason}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
}

/// What a request sends after its header, if it can be encoded.
type EncodedBody = Result<Body, serde_json::Error>;

/// Receives the response to a request.
type ResponseReceiver = oneshot::Receiver<rpc::RpcResult>;

/// A connection to the manager; clones share it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    socket: PathBuf,
    next_id: AtomicU64,
    requests: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
}

/// The requests that wait for responses, or the reason why no response can come any more.
struct Waiting(Mutex<Result<HashMap<u64, Sink>, RpcError>>);

enum Sink {
    One(oneshot::Sender<rpc::RpcResult>),
    Many(mpsc::Sender<rpc::RpcResult>),
    /// Responses that are read ahead.
    Ahead(mpsc::UnboundedSender<rpc::RpcResult>),
    /// Lines that are decoded by the code that takes them.
    Lines(mpsc::Sender<Vec<u8>>),
}

/// A response that may have to wait for room, and where it goes.
enum Next {
    Response(mpsc::Sender<rpc::RpcResult>, rpc::RpcResult),
    Line(mpsc::Sender<Vec<u8>>, Vec<u8>),
}

/// The responses to a streaming request, of the type that its service has.
pub struct Responses<S> {
    stream: Stream,
    service: PhantomData<fn() -> S>,
}

/// The responses to a streaming request, as they come.
pub struct Stream {
    responses: StreamReceiver,
    waiting: Arc<Waiting>,
    ended: bool,
}

/// The other end of a [`Sink`] of a stream.
enum StreamReceiver {
    Many(mpsc::Receiver<rpc::RpcResult>),
    Ahead(mpsc::UnboundedReceiver<rpc::RpcResult>),
}

/// The responses to a streaming request as undecoded lines, for streams that are too long to be decoded to
/// values first.
pub struct Lines {
    lines: mpsc::Receiver<Vec<u8>>,
    waiting: Arc<Waiting>,
}

impl Client {
    /// Connects to the manager that the environment names, or else to the system's manager; see
    /// [`socket`](Self::socket).
    ///
    /// `jobtap start` sets both variables to the same address. If they differ, either a script has set
    /// `FLUX_URI` since then and means that manager, or a real Flux has been started below this manager and
    /// `JOBTAP_URI` is meant.
    pub async fn connect() -> Result<Self, ClientError> {
        let socket = Self::socket()?;
        let flux = std::env::var(uri::FLUX_VARIABLE).ok().filter(|value| !value.is_empty());
        if let Some(address) = flux {
            let path = uri::to_path(&address)
                .map_err(|error| ClientError::BadUri(uri::FLUX_VARIABLE, error))?;
            if path != socket {
                match tokio::time::timeout(GREETING, Self::connect_to(&path)).await {
                    Ok(Err(ClientError::Refused { reason, .. })) if is_foreign(&reason) => {}
                    Ok(connected) => return connected,
                    // A real Flux doesn't answer the greeting.
                    Err(_) => {}
                }
            }
        }
        Self::connect_to(&socket).await
    }

    /// The socket of the manager that `JOBTAP_URI` (or else `FLUX_URI`) names. Without either it is the manager of
    /// the system at [`uri::SYSTEM_SOCKET`], if there is one.
    ///
    /// # Errors
    /// A variable has an address that is not understood, or no manager is found.
    pub fn socket() -> Result<PathBuf, ClientError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let system = Path::new(uri::SYSTEM_SOCKET);
        let system = system.exists().then_some(system);
        socket_of(set(uri::VARIABLE), set(uri::FLUX_VARIABLE), system)
    }

    /// Connects to the manager that listens on this socket.
    pub async fn connect_to(path: &Path) -> Result<Self, ClientError> {
        let socket = connect(path).await?;
        let (read, write) = socket.into_split();
        let waiting = Arc::new(Waiting(Mutex::new(Ok(HashMap::new()))));
        let (requests, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_requests(write, queue));
        tokio::spawn(read_responses(read, Arc::clone(&waiting)));
        let socket = path.to_owned();
        let client = Self {
            shared: Arc::new(Shared { socket, next_id: AtomicU64::new(0), requests, waiting }),
        };
        client.greet(path).await?;
        Ok(client)
    }

    /// Opens another connection to the same manager, for requests while a stream of this connection is being
    /// taken.
    ///
    /// # Errors
    /// As [`connect_to`](Self::connect_to).
    pub async fn another(&self) -> Result<Self, ClientError> {
        Self::connect_to(&self.shared.socket).await
    }

    async fn greet(&self, path: &Path) -> Result<(), ClientError> {
        greeted(path, self.call_topic(HELLO, Value::Object(greeting())).await)
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The manager's refusal; ECONNRESET when the connection is lost; EPROTO for a response that is not
    /// of the service's type.
    pub async fn call<S: Service>(&self, request: S) -> Result<S::Response, RpcError> {
        read::<S>(self.call_raw(request).await?)
    }

    /// Sends a request and returns its response as it came, for commands that print it whole.
    ///
    /// # Errors
    /// The manager's refusal; ECONNRESET when the connection is lost.
    pub async fn call_raw<S: Service>(&self, request: S) -> rpc::RpcResult {
        self.call_written(S::TOPIC, Body::of_request(request)).await
    }

    /// Sends requests, all before the first response is awaited, so that the manager can commit many changes at once.
    /// The responses are in the order of the requests.
    pub async fn call_all<S: Service>(
        &self,
        requests: impl IntoIterator<Item = S>,
    ) -> Vec<Result<S::Response, RpcError>> {
        let sent: Vec<_> = requests
            .into_iter()
            .map(|request| self.send_one(S::TOPIC, Body::of_request(request)))
            .collect();
        let mut responses = Vec::with_capacity(sent.len());
        for sent in sent {
            responses.push(self.response(sent).await.and_then(read::<S>));
        }
        responses
    }

    /// Sends a request that has any number of responses.
    ///
    /// # Errors
    /// ECONNRESET when the connection is lost. A refusal is the first response of the stream.
    pub async fn stream<S: Service>(&self, request: S) -> Result<Responses<S>, RpcError> {
        let stream = self.stream_topic(S::TOPIC, request).await?;
        Ok(Responses { stream, service: PhantomData })
    }

    /// As [`stream`](Self::stream), for a short stream: any number of its responses may wait, so that the
    /// caller can await other responses on this connection meanwhile.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn stream_ahead<S: Service>(&self, request: S) -> Result<Responses<S>, RpcError> {
        let (sender, responses) = mpsc::unbounded_channel();
        self.send(S::TOPIC, Body::of_request(request), Sink::Ahead(sender))?;
        let stream = self.stream_from(StreamReceiver::Ahead(responses));
        Ok(Responses { stream, service: PhantomData })
    }

    /// As [`stream`](Self::stream), for responses that are read as undecoded lines.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn lines<S: Service>(&self, request: S) -> Result<Lines, RpcError> {
        let (sender, lines) = mpsc::channel(WAITING_LINES);
        self.send(S::TOPIC, Body::of_request(request), Sink::Lines(sender))?;
        Ok(Lines { lines, waiting: Arc::clone(&self.shared.waiting) })
    }

    fn stream_from(&self, responses: StreamReceiver) -> Stream {
        Stream { responses, waiting: Arc::clone(&self.shared.waiting), ended: false }
    }

    /// Sends a request to a service that is known only by its topic, such as a plugin's.
    ///
    /// # Errors
    /// The refusal of the manager or of the plugin; ECONNRESET when the connection is lost.
    pub async fn call_topic(&self, topic: &str, payload: impl Serialize) -> rpc::RpcResult {
        self.call_written(topic, Body::of_payload(&payload)).await
    }

    /// As [`call_topic`](Self::call_topic), but without type parameters, so that this and what it calls is
    /// compiled once and not for each service.
    async fn call_written(&self, topic: &str, body: EncodedBody) -> rpc::RpcResult {
        self.response(self.send_one(topic, body)).await
    }

    fn send_one(&self, topic: &str, body: EncodedBody) -> Result<ResponseReceiver, RpcError> {
        let (sender, receiver) = oneshot::channel();
        self.send(topic, body, Sink::One(sender))?;
        Ok(receiver)
    }

    async fn response(&self, sent: Result<ResponseReceiver, RpcError>) -> rpc::RpcResult {
        sent?.await.unwrap_or_else(|_| Err(self.shared.waiting.end()))
    }

    /// Sends a request that has any number of responses to a service that is known only by its topic.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn stream_topic(
        &self,
        topic: &str,
        payload: impl Serialize,
    ) -> Result<Stream, RpcError> {
        let (sender, responses) = mpsc::channel(WAITING_RESPONSES);
        self.send(topic, Body::of_payload(&payload), Sink::Many(sender))?;
        Ok(self.stream_from(StreamReceiver::Many(responses)))
    }

    fn send(&self, topic: &str, body: EncodedBody, sink: Sink) -> Result<(), RpcError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let stream = !matches!(sink, Sink::One(_));
        let body = body.map_err(|error| RpcError::proto(format!("{topic}: {error}")))?;
        self.shared.waiting.insert(id, sink)?;
        let request = body.into_request(id, topic, stream);
        self.shared.requests.send(request).map_err(|_| self.shared.waiting.end())
    }
}

impl<S: Service> Responses<S> {
    /// The next response; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<S::Response, RpcError>> {
        Some(self.stream.next().await?.and_then(read::<S>))
    }
}

/// A response as the type that its service has.
fn read<S: Service>(response: Value) -> Result<S::Response, RpcError> {
    let malformed = |error| RpcError::proto(format!("{}: malformed response: {error}", S::TOPIC));
    S::Response::deserialize(response).map_err(malformed)
}

impl Stream {
    /// The next response; `None` after the last one.
    pub async fn next(&mut self) -> Option<rpc::RpcResult> {
        if self.ended {
            return None;
        }
        let response = match &mut self.responses {
            StreamReceiver::Many(responses) => responses.recv().await,
            StreamReceiver::Ahead(responses) => responses.recv().await,
        };
        let response = response.unwrap_or_else(|| Err(self.waiting.end()));
        self.ended = response.is_err();
        match response {
            Err(RpcError { errno: ENODATA, .. }) => None,
            other => Some(other),
        }
    }
}

impl Lines {
    /// The next line. The last one has an error, ENODATA if the stream is complete.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Vec<u8>, RpcError> {
        self.lines.recv().await.ok_or_else(|| self.waiting.end())
    }
}

/// A line of the manager that is no response.
#[derive(Debug)]
struct MalformedResponse;

impl Waiting {
    fn insert(&self, id: u64, sink: Sink) -> Result<(), RpcError> {
        match &mut *self.lock() {
            Ok(map) => drop(map.insert(id, sink)),
            Err(end) => return Err(end.clone()),
        }
        Ok(())
    }

    /// Hands the response in this line to the request that it belongs to, and waits until there is room for
    /// it.
    ///
    /// # Errors
    /// The line is no response.
    async fn deliver(&self, line: &[u8]) -> Result<(), MalformedResponse> {
        let (id, sent) = match self.next_of(line)? {
            None => return Ok(()),
            Some((id, Next::Response(sender, response))) => {
                (id, sender.send(response).await.is_ok())
            }
            Some((id, Next::Line(sender, line))) => (id, sender.send(line).await.is_ok()),
        };
        // The receiver of this stream is gone.
        if !sent && let Ok(map) = &mut *self.lock() {
            map.remove(&id);
        }
        Ok(())
    }

    /// Hands over the response, or returns it if there may be no room for it. A refusal with the id 0 is
    /// about the connection: the manager sends it before it closes the connection.
    fn next_of(&self, line: &[u8]) -> Result<Option<(u64, Next)>, MalformedResponse> {
        let mut guard = self.lock();
        let Ok(map) = &mut *guard else { return Ok(None) };
        if let Some(id) = id_of_response(line)
            && let Some(Sink::Lines(sender)) = map.get(&id)
        {
            return Ok(Some((id, Next::Line(sender.clone(), line.to_owned()))));
        }
        let Response { id, result } = decode(line).map_err(|_| MalformedResponse)?;
        let last = result.is_err();
        match (map.remove(&id), result) {
            (Some(Sink::One(sender)), result) => drop(sender.send(result)),
            (Some(Sink::Ahead(sender)), result) => {
                if sender.send(result).is_ok() && !last {
                    map.insert(id, Sink::Ahead(sender));
                }
            }
            (Some(Sink::Many(sender)), result) => {
                if !last {
                    map.insert(id, Sink::Many(sender.clone()));
                }
                return Ok(Some((id, Next::Response(sender, result))));
            }
            // The line has two ids.
            (Some(Sink::Lines(_)), _) => return Err(MalformedResponse),
            (None, Err(reason)) if id == 0 => *guard = Err(reason),
            (None, _) => {}
        }
        Ok(None)
    }

    /// Fails all requests that wait for a response, and those that are sent later.
    fn close(&self) {
        let mut guard = self.lock();
        if guard.is_ok() {
            *guard = Err(connection_lost());
        }
    }

    /// Why no response can come any more.
    fn end(&self) -> RpcError {
        self.lock().as_ref().err().cloned().unwrap_or_else(connection_lost)
    }

    fn lock(&self) -> MutexGuard<'_, Result<HashMap<u64, Sink>, RpcError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_requests(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<String>) {
    while let Some(request) = queue.recv().await {
        if socket.write_all(request.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_responses(socket: OwnedReadHalf, waiting: Arc<Waiting>) {
    let mut socket = BufReader::with_capacity(READ, socket);
    let mut line = Vec::new();
    loop {
        line.clear();
        match socket.read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        if waiting.deliver(&line).await.is_err() {
            break;
        }
    }
    waiting.close();
}

/// Connects to the socket, and waits while its backlog is full.
async fn connect(path: &Path) -> Result<UnixStream, ClientError> {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if begin.elapsed() >= PATIENCE {
                    return Err(ClientError::Full(path.to_owned()));
                }
                tokio::time::sleep(PAUSE).await;
            }
            connected => return connected.map_err(|error| connect_error(path, error)),
        }
    }
}

/// The socket for the values of `JOBTAP_URI` and `FLUX_URI`, and the socket of the system's manager.
fn socket_of(
    ours: Option<String>,
    flux: Option<String>,
    system: Option<&Path>,
) -> Result<PathBuf, ClientError> {
    // A malformed FLUX_URI is an error even if JOBTAP_URI is set: a script that sets it means it.
    if let Some(flux) = flux.as_ref().filter(|address| !address.contains("://")) {
        let error = uri::UriError::Scheme(flux.clone());
        return Err(ClientError::BadUri(uri::FLUX_VARIABLE, error));
    }
    let (name, address) = match (ours, flux, system) {
        (Some(address), ..) => (uri::VARIABLE, address),
        (None, Some(address), _) => (uri::FLUX_VARIABLE, address),
        (None, None, Some(system)) => return Ok(system.to_owned()),
        (None, None, None) => return Err(ClientError::NoUri),
    };
    uri::to_path(&address).map_err(|error| ClientError::BadUri(name, error))
}

/// The payload of the first request. Flux's variables with which tests act as a guest are passed on.
fn greeting() -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert("protocol".into(), json!(PROTOCOL));
    for (key, variable) in [("userid", "FLUX_HANDLE_USERID"), ("rolemask", "FLUX_HANDLE_ROLEMASK")]
    {
        if let Some(number) = std::env::var(variable).ok().as_deref().and_then(number) {
            payload.insert(key.into(), json!(number));
        }
    }
    payload
}

/// Checks the response to the greeting.
fn greeted(path: &Path, response: rpc::RpcResult) -> Result<(), ClientError> {
    let path = path.to_path_buf();
    let response = match response {
        Ok(response) => response,
        Err(reason) => return Err(ClientError::Refused { path, reason }),
    };
    match response.get("protocol").and_then(Value::as_u64) {
        Some(PROTOCOL) => Ok(()),
        theirs => Err(ClientError::Version { path, theirs: theirs.unwrap_or(0) }),
    }
}

/// Returns whether the greeting got an answer that the broker of a real Flux gives, and no manager.
fn is_foreign(reason: &RpcError) -> bool {
    [ECONNRESET, EPROTO].contains(&reason.errno)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn connection_lost() -> RpcError {
    RpcError::new(ECONNRESET, "the connection to the manager was lost")
}

fn connect_error(path: &Path, reason: std::io::Error) -> ClientError {
    let path = path.to_path_buf();
    match reason.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            ClientError::NothingListens(path)
        }
        std::io::ErrorKind::PermissionDenied => ClientError::OtherUser(path),
        _ => ClientError::Io { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_manager_or_else_it_is_that_of_the_system() {
        let text = |text: &str| Some(text.to_owned());
        let system = Some(Path::new("/run/x"));
        for (ours, flux, system, wanted) in [
            (text("local:///a"), text("local:///b"), system, "/a"),
            (None, text("local:///b"), system, "/b"),
            (None, None, system, "/run/x"),
        ] {
            assert_eq!(socket_of(ours, flux, system).unwrap(), Path::new(wanted));
        }
        assert!(matches!(socket_of(None, None, None), Err(ClientError::NoUri)));
        let refused = socket_of(text("local:///a"), text("x"), system).unwrap_err();
        assert!(matches!(refused, ClientError::BadUri("FLUX_URI", _)), "{refused}");
    }

    #[test]
    fn a_manager_of_another_version_is_named_with_what_to_do() {
        let told =
            |response| greeted(Path::new("/run/x"), response).map_err(|error| error.to_string());
        assert_eq!(told(Ok(json!({ "protocol": PROTOCOL }))), Ok(()));
        let theirs = PROTOCOL + 1;
        let wanted = format!(
            "the manager at /run/x speaks protocol {theirs}, this command {PROTOCOL}: use the jobtap that started it"
        );
        assert_eq!(told(Ok(json!({ "protocol": theirs }))), Err(wanted));
        // A program that isn't jobtap at all reports no protocol.
        assert!(told(Ok(json!({}))).unwrap_err().contains("speaks protocol 0"));
    }
}
