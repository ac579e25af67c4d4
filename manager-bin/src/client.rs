//! The commands' end of a connection to the manager.
//!
//! Any number of requests share one connection: a task writes them, another one reads the answers and
//! hands each to the request that waits for it.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

pub use crate::rpc::RpcError;
use crate::rpc::errno::{ECONNRESET, ENODATA};
use crate::rpc::message::{Answer, Request, decode, encode};
use crate::rpc::service::Service;
use crate::rpc::{self, HELLO, PROTOCOL, uri};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address in the environment.
    #[error("no manager here: JOBTAP_URI is not set; start one with `jobtap start`")]
    NoUri,
    /// An address that is not understood.
    #[error("{0}: {1}")]
    BadUri(&'static str, String),
    /// The socket is missing or dead.
    #[error("no manager listens at {}: it has ended, or JOBTAP_URI is old", .0.display())]
    NothingListens(PathBuf),
    /// The socket is somebody else's.
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
        /// Its words.
        reason: RpcError,
    },
    /// Anything else that the system reports.
    #[error("can't connect to the manager at {}: {reason}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
}

/// A connection to the manager; clones share it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    next_id: AtomicU64,
    lines: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
}

/// Who waits for which answer; why none comes any more once the connection is lost.
struct Waiting(Mutex<Result<HashMap<u64, Sink>, RpcError>>);

enum Sink {
    One(oneshot::Sender<rpc::RpcResult>),
    Many(mpsc::UnboundedSender<rpc::RpcResult>),
}

/// The answers to a streaming request, of the type that its service has.
pub struct Typed<S> {
    stream: Stream,
    service: PhantomData<fn() -> S>,
}

/// The answers to a streaming request, as they come.
pub struct Stream {
    answers: mpsc::UnboundedReceiver<rpc::RpcResult>,
    waiting: Arc<Waiting>,
    ended: bool,
}

impl Client {
    /// Connects to the manager that `JOBTAP_URI` (or else `FLUX_URI`) names.
    pub async fn connect() -> Result<Self, ClientError> {
        Self::connect_to(&Self::socket()?).await
    }

    /// The socket of that manager.
    ///
    /// # Errors
    /// None is named, or by an address that is not understood.
    pub fn socket() -> Result<PathBuf, ClientError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (ours, flux) = (set(uri::VARIABLE), set(uri::FLUX_VARIABLE));
        // What is no address at all is told, not passed over for the other one.
        if let Some(flux) = flux.as_ref().filter(|address| !address.contains("://")) {
            let text = format!("the address '{flux}' is not understood: write local://PATH");
            return Err(ClientError::BadUri(uri::FLUX_VARIABLE, text));
        }
        let (name, address) = match (ours, flux) {
            (Some(address), _) => (uri::VARIABLE, address),
            (None, Some(address)) => (uri::FLUX_VARIABLE, address),
            (None, None) => return Err(ClientError::NoUri),
        };
        uri::to_path(&address).map_err(|text| ClientError::BadUri(name, text))
    }

    /// Connects to the manager that listens on this socket.
    pub async fn connect_to(path: &Path) -> Result<Self, ClientError> {
        let socket = UnixStream::connect(path).await.map_err(|error| connect_error(path, error))?;
        let (read, write) = socket.into_split();
        let waiting = Arc::new(Waiting(Mutex::new(Ok(HashMap::new()))));
        let (lines, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_lines(write, queue));
        tokio::spawn(read_answers(read, Arc::clone(&waiting)));
        let client =
            Self { shared: Arc::new(Shared { next_id: AtomicU64::new(0), lines, waiting }) };
        client.greet(path).await?;
        Ok(client)
    }

    async fn greet(&self, path: &Path) -> Result<(), ClientError> {
        let answer = self
            .rpc(HELLO, Value::Object(greeting()))
            .await
            .map_err(|reason| ClientError::Refused { path: path.to_path_buf(), reason })?;
        match answer.get("protocol").and_then(Value::as_u64) {
            Some(PROTOCOL) => Ok(()),
            theirs => {
                Err(ClientError::Version { path: path.to_path_buf(), theirs: theirs.unwrap_or(0) })
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The manager's refusal; ECONNRESET when the connection is lost; EPROTO for an answer that is not
    /// of the service's type.
    pub async fn call<S: Service>(&self, request: S) -> Result<S::Answer, RpcError> {
        read::<S>(self.call_untyped(request).await?)
    }

    /// The same with the answer as it came, for commands that print it whole.
    pub async fn call_untyped<S: Service>(&self, request: S) -> rpc::RpcResult {
        self.rpc(S::TOPIC, written(&request)?).await
    }

    /// Sends a request that has any number of answers. A refusal is the first of them.
    pub async fn follow<S: Service>(&self, request: S) -> Result<Typed<S>, RpcError> {
        let stream = self.stream(S::TOPIC, written(&request)?).await?;
        Ok(Typed { stream, service: PhantomData })
    }

    /// Sends a request to a service that is known only by its topic, such as a plugin's.
    pub async fn rpc(&self, topic: &str, payload: Value) -> rpc::RpcResult {
        let (sender, receiver) = oneshot::channel();
        self.send(topic, payload, Sink::One(sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.shared.waiting.end()))
    }

    /// The same for a request that has any number of answers. A refusal is the first of them.
    pub async fn stream(&self, topic: &str, payload: Value) -> Result<Stream, RpcError> {
        let (sender, answers) = mpsc::unbounded_channel();
        self.send(topic, payload, Sink::Many(sender))?;
        Ok(Stream { answers, waiting: Arc::clone(&self.shared.waiting), ended: false })
    }

    fn send(&self, topic: &str, payload: Value, sink: Sink) -> Result<(), RpcError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let stream = matches!(sink, Sink::Many(_));
        self.shared.waiting.insert(id, sink)?;
        let request = Request { id, topic: topic.to_owned(), payload, stream };
        self.shared.lines.send(encode(&request)).map_err(|_| self.shared.waiting.end())
    }
}

impl<S: Service> Typed<S> {
    /// The next answer; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<S::Answer, RpcError>> {
        Some(self.stream.next().await?.and_then(read::<S>))
    }
}

/// A request as the payload of its message.
fn written(request: &impl Serialize) -> rpc::RpcResult {
    serde_json::to_value(request).map_err(|error| RpcError::proto(error.to_string()))
}

/// An answer of a service as its type.
fn read<S: Service>(answer: Value) -> Result<S::Answer, RpcError> {
    let malformed = |error| RpcError::proto(format!("{}: malformed answer: {error}", S::TOPIC));
    S::Answer::deserialize(answer).map_err(malformed)
}

impl Stream {
    /// The next answer; `None` after the last one.
    pub async fn next(&mut self) -> Option<rpc::RpcResult> {
        if self.ended {
            return None;
        }
        let answer = self.answers.recv().await.unwrap_or_else(|| Err(self.waiting.end()));
        self.ended = answer.is_err();
        match answer {
            Err(RpcError { errno: ENODATA, .. }) => None,
            other => Some(other),
        }
    }
}

impl Waiting {
    fn insert(&self, id: u64, sink: Sink) -> Result<(), RpcError> {
        match &mut *self.lock() {
            Ok(map) => drop(map.insert(id, sink)),
            Err(end) => return Err(end.clone()),
        }
        Ok(())
    }

    /// Hands an answer to the request that it belongs to. A refusal that belongs to none is about the connection:
    /// the manager sends it before it closes.
    fn deliver(&self, answer: Answer) {
        let mut guard = self.lock();
        let Ok(map) = &mut *guard else { return };
        let last = answer.result.is_err();
        match (map.remove(&answer.id), answer.result) {
            (Some(Sink::One(sender)), result) => drop(sender.send(result)),
            (Some(Sink::Many(sender)), result) => {
                if sender.send(result).is_ok() && !last {
                    map.insert(answer.id, Sink::Many(sender));
                }
            }
            (None, Err(reason)) if answer.id == 0 => *guard = Err(reason),
            (None, _) => {}
        }
    }

    /// Lets everyone who waits know that no answer will come, now and later.
    fn close(&self) {
        let mut guard = self.lock();
        if guard.is_ok() {
            *guard = Err(connection_lost());
        }
    }

    /// Why no answer comes any more.
    fn end(&self) -> RpcError {
        self.lock().as_ref().err().cloned().unwrap_or_else(connection_lost)
    }

    fn lock(&self) -> MutexGuard<'_, Result<HashMap<u64, Sink>, RpcError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_lines(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = queue.recv().await {
        if socket.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_answers(socket: OwnedReadHalf, waiting: Arc<Waiting>) {
    let mut socket = BufReader::new(socket);
    let mut line = Vec::new();
    loop {
        line.clear();
        match socket.read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        match decode::<Answer>(&line) {
            Ok(answer) => waiting.deliver(answer),
            Err(_) => break,
        }
    }
    waiting.close();
}

/// What the manager must know first. Flux's test variables for acting as a guest are honoured.
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
