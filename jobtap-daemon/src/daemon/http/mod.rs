//! `[http]`: the services over HTTP, for tools and browsers.
//!
//! Off unless the configuration says where to listen. A client without the token reads what a guest may see and changes
//! nothing (`guard`); the token gives the owner's rights. `calls` hands requests to the handlers of the socket, and
//! `page` is a client for people.
//!
//! What a client sends, or does not read, takes a bounded amount of memory. There are limits on the number of
//! connections, on the size of a request's header and content and the time to send them, on the parts of a response
//! that wait, and on the time in which a client must read some of it. Clients without the token take nothing from those
//! with it (`places`).

mod calls;
#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod guard;
mod metrics;
mod page;
mod places;
mod responses;
mod shared;
mod slow;
mod token;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use jobtap_core::engine::Level;
use jobtap_core::job::Uid;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use self::guard::{Client, Guard};
use self::places::{GiveWay, Origin, Places};
use self::responses::{Content, Refusal, json_response, response, whole};
use self::shared::{Http, LIFE, Peer, READER};
use self::slow::Patient;
use self::token::Token;
use super::config::http::{HttpError, HttpSettings, Listen};
use super::engine::answered;
use super::request_parts::RequestParts;
use super::rights::privacy::Claim;
use super::server::shares::{Share, Shares};
use crate::rpc::errno::{EINVAL, ENOENT, ETIMEDOUT};
use crate::rpc::{RpcError, openapi};

/// The maximum number of connections at once.
const CONNECTIONS: usize = 256;
/// How long its last response may take after that.
const LAST_RESPONSE: Duration = Duration::from_secs(60);
/// How long a client may take to send the header of a request, including the pause before it.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// The maximum size of a header in bytes. A connection buffers a little more than twice as much, since a single read
/// may be as long as the part of a header that is already buffered.
const HEADER: usize = 64 * 1024;
/// The maximum number of lines in a header.
const HEADERS: usize = 64;
/// A manager whose engine doesn't respond within this time is not healthy.
const HEALTHY: Duration = Duration::from_secs(5);

/// A listener that is open.
pub(super) struct HttpListener {
    socket: Socket,
    guard: Guard,
    has_token: bool,
    /// Where it listens.
    address: Listen,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl HttpListener {
    /// Opens the listener of `settings`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The token can't be read, or the address can't be used. The text names the key in question.
    pub(super) fn open(settings: &HttpSettings) -> Result<Self, HttpError> {
        let token = settings.token()?.map(|text| Token::new(&text));
        let has_token = token.is_some();
        let guard = Guard::new(settings, token);
        let refused = |reason| HttpError::Listen { listen: settings.listen.clone(), reason };
        let (socket, address) = match &settings.listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                let listener = TcpListener::from_std(listener).map_err(refused)?;
                (Socket::Tcp(listener), Listen::Tcp(address))
            }
            Listen::Unix(path) => {
                let listener = super::unix_socket::listen(path).map_err(refused)?;
                (Socket::Unix(listener, path.clone()), settings.listen.clone())
            }
        };
        Ok(Self { socket, guard, has_token, address })
    }

    /// The address at which it listens, with the port that it got.
    pub(super) fn uri(&self) -> String {
        self.address.to_string()
    }

    /// Serves connections until it is dropped, at most `room` at once.
    pub(super) async fn serve(self, parts: Arc<RequestParts>, room: usize) {
        let Self { socket, guard, has_token, address } = self;
        let readers: Arc<Shares<Origin>> = Shares::new(room);
        let owner = Share::of_owner();
        parts.log.write(Level::Info, &format!("listening at {address}"));
        let document = openapi::document().to_string();
        let http = Arc::new(Http { parts, guard, has_token, owner, document });
        let places = Places::new(room.min(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match &socket {
                Socket::Tcp(listener) => match listener.accept().await {
                    Ok((client, address)) => {
                        // So that a client that has vanished is noticed even if nothing is written to it.
                        let _ = rustix::net::sockopt::set_socket_keepalive(&client, true);
                        let _ = client.set_nodelay(true);
                        let origin = Origin::from_address(address.ip());
                        let (peer, give_way) = peer(&places, &readers, origin).await;
                        connections.spawn(connection(Arc::clone(&http), client, peer, give_way));
                    }
                    Err(_) => pause().await,
                },
                Socket::Unix(listener, _) => match listener.accept().await {
                    Ok((client, _)) => {
                        let uid = client.peer_cred().map_or(READER, |cred| Uid::new(cred.uid()));
                        let (peer, give_way) = peer(&places, &readers, Origin::User(uid)).await;
                        connections.spawn(connection(Arc::clone(&http), client, peer, give_way));
                    }
                    Err(_) => pause().await,
                },
            }
        }
    }
}

/// Takes a place for a new client.
async fn peer(
    places: &Arc<Places>,
    readers: &Arc<Shares<Origin>>,
    origin: Origin,
) -> (Peer, GiveWay) {
    let (place, give_way) = places.take(origin).await;
    (Peer { place: Arc::new(place), seat: readers.guest(origin) }, give_way)
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            super::unix_socket::remove_socket(path);
        }
    }
}

/// Waits for a file descriptor to become free: there are none left.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Serves one connection to its end, or until it has to give way.
async fn connection(
    http: Arc<Http>,
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    give_way: GiveWay,
) {
    let place = Arc::clone(&peer.place);
    let peer = Arc::new(peer);
    let service = service_fn(|request| {
        let (http, peer) = (Arc::clone(&http), Arc::clone(&peer));
        async move {
            let response = http.respond(request, &peer).await;
            Ok::<_, Infallible>(response.unwrap_or_else(Refusal::into_response))
        }
    });
    let moved = Arc::clone(&place);
    let socket = TokioIo::new(Patient::new(socket, move || moved.moved()));
    let served = parser().serve_connection(socket, service);
    let mut served = std::pin::pin!(served);
    // A client that leaves in the middle is not worth a line in the log.
    tokio::select! {
        _ = served.as_mut() => return,
        _ = give_way => return,
        () = place.grown_old(LIFE) => served.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(LAST_RESPONSE, served).await;
}

/// What reads the requests of a connection, with its limits.
fn parser() -> http1::Builder {
    let mut parser = http1::Builder::new();
    parser.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    parser.max_headers(HEADERS).max_buf_size(HEADER);
    parser
}

impl Http {
    async fn respond(
        &self,
        request: Request<Incoming>,
        peer: &Arc<Peer>,
    ) -> Result<Response<Content>, Refusal> {
        guard::check_size(&request, HEADER)?;
        self.guard.check_origin(request.uri(), request.headers())?;
        // Not refused yet, since some paths need no token. Meanwhile the request counts as one without the token, so
        // that it keeps no place of a client with it.
        let client = self.guard.client(request.headers());
        let at_work = peer.place.begin(client.as_ref().map_or(Client::Reader, |client| *client))?;
        let path = request.uri().path().to_owned();
        if path == "/healthz" {
            only(&[Method::GET, Method::HEAD], request.method())?;
            return self.health().await;
        }
        // A link on another site may lead to the page itself, which requests nothing except through its own script.
        if path != "/" {
            Guard::check_site(request.headers())?;
        }
        if let Some(file) = page::file(&path, self.has_token) {
            only(&[Method::GET, Method::HEAD], request.method())?;
            return Ok(file);
        }
        let client = client?;
        if let Some(topic) = path.strip_prefix(openapi::SERVICES) {
            only(&[Method::POST], request.method())?;
            return calls::call(self, client, peer, topic, request, at_work).await;
        }
        match path.as_str() {
            "/openapi.json" => {
                only(&[Method::GET, Method::HEAD], request.method())?;
                let document = whole(self.document.clone());
                Ok(response(StatusCode::OK, "application/json", document))
            }
            "/metrics" => {
                only(&[Method::GET, Method::HEAD], request.method())?;
                let (cred, _) = self.who(client, peer);
                let hidden = self.parts.privacy.is_hidden_from(cred, Claim::Nothing);
                let text = metrics::text(&self.parts, hidden).await?;
                Ok(response(StatusCode::OK, metrics::TYPE, whole(text)))
            }
            _ => {
                Err(RpcError::new(ENOENT, format!("{path}: there is nothing at this path")).into())
            }
        }
    }

    /// Reports whether the engine responds.
    async fn health(&self) -> Result<Response<Content>, Refusal> {
        let read = answered(self.parts.engine.read(|_| Ok(())));
        let error = match tokio::time::timeout(HEALTHY, read).await {
            Ok(Ok(())) => return Ok(json_response(StatusCode::OK, &json!({ "status": "ok" }))),
            Ok(Err(error)) => error,
            Err(_) => RpcError::new(ETIMEDOUT, "the engine doesn't respond"),
        };
        Err(Refusal::with(StatusCode::SERVICE_UNAVAILABLE, error))
    }
}

/// Refuses all methods but these.
fn only(methods: &[Method], method: &Method) -> Result<(), Refusal> {
    if methods.contains(method) {
        return Ok(());
    }
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let error = RpcError::new(EINVAL, format!("{method}: use {}", names.join(" or ")));
    Err(Refusal::with(StatusCode::METHOD_NOT_ALLOWED, error))
}
