//! The manager's socket: connections, who is at their other end, and the way of a request through the
//! services.
//!
//! What a client sends, or doesn't read, costs a bounded amount of memory, and no one else's turn. A
//! connection is read only while it has less than a window of requests in flight and less than a window
//! of answers unread; the rest stays in the client's own socket. What all connections of a user have
//! together is in `shares`, whose turn it is at the engine in `intake`.

mod answers;
mod frames;
mod shares;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jobtap_core::engine::{Cred, Level};
use jobtap_core::job::Uid;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use self::answers::{Answers, Held, Outbox, outbox};
use self::frames::{Frame, Frames, Refused};
use self::shares::{Charge, Seat, Shares};
use super::Parts;
use super::engine::EngineHandle;
use super::engine::intake::Source;
use super::services::job_info::watch::{self, Sink};
use super::services::{self, Call, Reply};
use crate::open_files::OpenFiles;
use crate::rpc::errno::{EINVAL, EPERM};
use crate::rpc::message::{Answer, Request, encode};
use crate::rpc::service;
use crate::rpc::{HELLO, PROTOCOL, RpcError, RpcResult};

/// Requests of a connection that are in flight at a time: taken in, and not yet answered. Enough for
/// the store to commit hundreds together.
const WINDOW: usize = 1024;
/// Requests for services of plugins in flight on a connection: their answers may be long.
const SERVICES: usize = 64;
/// How long a connection that is refused has to read why.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The owner's role in a rolemask, as Flux numbers it.
const ROLE_OWNER: u32 = 1;

/// What is left to do for a request after it was taken in.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves connections until it is dropped, at most `room` at once; who comes then waits until one
/// ends.
pub(super) async fn serve(listener: UnixListener, parts: Arc<Parts>, room: usize) {
    let mut connections = JoinSet::new();
    let shares = Shares::new(room);
    let mut told = false;
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= room {
            if !told {
                parts.log.write(Level::Warning, &full(room));
            }
            told = true;
            connections.join_next().await;
            continue;
        }
        told = told && connections.len() > room / 2;
        match listener.accept().await {
            Ok((socket, _)) => {
                if let Some(connection) = Connection::new(&socket, &parts, &shares) {
                    connections.spawn(connection.run(socket));
                }
            }
            // Out of descriptors: those in use will be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn full(room: usize) -> String {
    let limit = OpenFiles::of_this_process().own();
    format!(
        "{room} connections are as many as the limit of {limit} open files has room for: others \
         wait until one ends (raise LimitNOFILE, or ulimit -n)"
    )
}

/// One client.
struct Connection {
    parts: Arc<Parts>,
    shares: Arc<Shares>,
    seat: Seat,
    cred: Cred,
    engine: EngineHandle,
    window: Arc<Semaphore>,
    /// For requests whose answers may be long: one after the other.
    long_answers: Arc<Semaphore>,
    plugin_services: Arc<Semaphore>,
    /// Whether anything but the greeting was asked for.
    asked: bool,
    /// Requests in flight. Dropped with the connection: nobody is left to hear what they would say.
    running: JoinSet<()>,
}

/// Why a connection isn't read any more.
enum End {
    /// The client left.
    Left,
    /// What it sent can't be read.
    Refused(Refused),
}

impl Connection {
    /// `None` when there is no place for it, which the client hears.
    fn new(socket: &UnixStream, parts: &Arc<Parts>, shares: &Arc<Shares>) -> Option<Self> {
        let userid = Uid::new(socket.peer_cred().ok()?.uid());
        let cred = Cred { userid, owner: userid == parts.owner };
        let seat = match shares.seat(cred) {
            Ok(seat) => seat,
            Err(error) => {
                let answer = encode(&Answer { id: 0, result: Err(error) });
                // A fresh socket has room for it.
                let _ = socket.try_write(answer.as_bytes());
                return None;
            }
        };
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Some(Self {
            parts: Arc::clone(parts),
            shares: Arc::clone(shares),
            seat,
            cred,
            engine: parts.engine.of_client(source(userid)),
            window: semaphore(WINDOW),
            long_answers: semaphore(1),
            plugin_services: semaphore(SERVICES),
            asked: false,
            running: JoinSet::new(),
        })
    }

    async fn run(mut self, socket: UnixStream) {
        let (read, write) = socket.into_split();
        let (outbox, writer) = outbox();
        let mut writing = std::pin::pin!(writer.run(write));
        let end = tokio::select! {
            end = self.read(Frames::new(read), &outbox) => end,
            () = &mut writing => End::Left,
        };
        // What the engine has not begun isn't done, and what waits in it is forgotten.
        self.engine.leave();
        self.running.shutdown().await;
        if let End::Refused(Refused { id, error }) = end {
            let last = async {
                Answers::new(id, outbox, Held::default()).last(Err(error)).await;
                writing.await;
            };
            let _ = tokio::time::timeout(LAST_WORD, last).await;
        }
    }

    /// Takes requests in until the client leaves or can't be understood.
    async fn read(&mut self, mut frames: Frames<OwnedReadHalf>, outbox: &Outbox) -> End {
        loop {
            while self.running.try_join_next().is_some() {}
            let place = unless_left(frames.source(), async {
                outbox.has_room().await;
                take(&self.window).await
            });
            let Some(place) = place.await else { return End::Left };
            let Frame { request, mut charge } = match frames.next(self.seat.share()).await {
                Some(Ok(frame)) => frame,
                Some(Err(refused)) => return End::Refused(refused),
                None => return End::Left,
            };
            let mut held = Held(Vec::from_iter(place));
            if request.topic == HELLO {
                let result = self.hello(&request.payload);
                Answers::new(request.id, outbox.clone(), held).last(result).await;
                continue;
            }
            self.asked = true;
            let Request { id, topic, payload, stream } = request;
            let admitted = services::admit(&self.parts, self.cred, &topic, payload);
            let request = match admitted {
                Ok(request) => request,
                Err(error) => {
                    let answers = Answers::new(id, outbox.clone(), held);
                    self.running.spawn(async move { answers.last(Err(error)).await });
                    continue;
                }
            };
            let more = unless_left(frames.source(), self.places(request.answers, stream));
            let refused = match more.await {
                Some(Ok(Places::InWindow(more))) => {
                    held.0.extend(more);
                    None
                }
                // It isn't in flight but waits: its place is among those that do.
                Some(Ok(Places::Waiting(place))) => {
                    held.0 = vec![place];
                    charge = Charge::default();
                    None
                }
                Some(Err(error)) => Some(error),
                None => return End::Left,
            };
            let answers = Answers::new(id, outbox.clone(), held);
            let work = match refused {
                Some(error) => Box::pin(async move { answers.last(Err(error)).await }),
                None => self.take_in(request, stream, answers, charge),
            };
            self.running.spawn(work);
        }
    }

    /// The places that a request needs beside that in the window, as soon as they are free.
    async fn places(&self, answers: service::Answers, streaming: bool) -> Result<Places, RpcError> {
        use service::Answers::{Late, Long, LongOrStream, Plugin, Short, Stream};

        let share = self.seat.share();
        Ok(match answers {
            Short => Places::InWindow(None),
            Stream => Places::Waiting(share.stream()?),
            LongOrStream | Plugin if streaming => Places::Waiting(share.stream()?),
            Long | LongOrStream => Places::InWindow(take(&self.long_answers).await),
            Plugin => Places::InWindow(take(&self.plugin_services).await),
            Late => Places::Waiting(share.wait()?),
        })
    }

    /// Starts on a request: its place among the engine's inputs is that of its line on the connection.
    fn take_in(
        &self,
        mut request: services::Request,
        streaming: bool,
        answers: Answers,
        charge: Charge,
    ) -> Work {
        let (cred, parts) = (self.cred, Arc::clone(&self.parts));
        let call = Call { parts: &self.parts, engine: &self.engine, cred, streaming };
        let change = request.change.take();
        match request.handle(&call) {
            Err(error) => Box::pin(async move { answers.last(Err(error)).await }),
            Ok(Reply::One(answer)) => Box::pin(async move {
                let result = answer.await;
                drop(charge);
                if let Some(change) = change {
                    parts.audit.record(cred, change, &result).await;
                }
                answers.last(result).await;
            }),
            Ok(Reply::Jobs(listing)) => Box::pin(async move {
                match listing.await {
                    Ok(listing) => answers.listing(listing),
                    Err(error) => answers.last(Err(error)).await,
                }
            }),
            Ok(Reply::Engine(stream)) => Box::pin(relay(stream, answers)),
            Ok(Reply::Feed(feed)) => Box::pin(feed_on(feed, answers)),
            Ok(Reply::Eventlog(request)) => Box::pin(async move {
                let end = watch::serve(&parts.records, &parts.hub, cred, &request, &answers).await;
                answers.last(Err(end)).await;
            }),
        }
    }

    /// The first request. The client may turn out to be another user than its process.
    fn hello(&mut self, payload: &Value) -> RpcResult {
        let mut cred = self.cred;
        let answer = hello(payload, &mut cred)?;
        if cred != self.cred {
            if self.asked {
                let text = "hello: another user is named before anything is asked for";
                return Err(RpcError::new(EINVAL, text));
            }
            self.seat = self.shares.seat(cred)?;
            self.engine = self.parts.engine.of_client(source(cred.userid));
            self.cred = cred;
        }
        Ok(answer)
    }
}

/// The places of a request.
enum Places {
    /// That in the window, and maybe another one.
    InWindow(Option<OwnedSemaphorePermit>),
    /// Another one alone.
    Waiting(OwnedSemaphorePermit),
}

async fn take(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // Never closed.
    Arc::clone(places).acquire_owned().await.ok()
}

/// Does this unless the client leaves first, which otherwise shows only when its socket is read.
async fn unless_left<T>(socket: &OwnedReadHalf, what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = what => Some(done),
        _ = socket.ready(Interest::PRIORITY) => None,
    }
}

/// A client's queue at the engine.
fn source(user: Uid) -> Source {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    Source::Client { user, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) }
}

/// Passes on what a plugin answers, until its last word or until nobody reads it.
async fn relay(mut stream: super::engine::replies::Answers, answers: Answers) {
    loop {
        match stream.next().await {
            Ok(answer) => {
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
            Err(end) => return answers.last(Err(end)).await,
        }
    }
}

/// Passes on what the manager itself has to say, until its last word or until nobody reads it.
async fn feed_on(mut feed: Receiver<RpcResult>, answers: Answers) {
    while let Some(answer) = feed.recv().await {
        match answer {
            Ok(answer) => {
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
            Err(end) => return answers.last(Err(end)).await,
        }
    }
}

/// Compares versions. The owner may ask to be treated as somebody else, which tests of guests need.
fn hello(payload: &Value, cred: &mut Cred) -> RpcResult {
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
        if !cred.owner && wanted != *cred {
            return Err(RpcError::new(EPERM, "only the owner may act as another user"));
        }
        *cred = wanted;
    }
    Ok(json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };

    #[test]
    fn the_owner_may_act_as_a_guest_and_nobody_else() {
        let as_guest = json!({"protocol": PROTOCOL, "userid": 7, "rolemask": 2});
        let mut cred = OWNER;
        hello(&as_guest, &mut cred).unwrap();
        assert_eq!(cred, Cred { userid: Uid::new(7), owner: false });
        let back = json!({"protocol": PROTOCOL, "userid": 1000, "rolemask": 1});
        assert_eq!(hello(&back, &mut cred).unwrap_err().errno, EPERM);
    }

    #[test]
    fn another_version_is_told_ours_and_gets_no_role() {
        let mut cred = OWNER;
        let answer = hello(&json!({"protocol": PROTOCOL + 1, "userid": 7}), &mut cred).unwrap();
        assert_eq!(answer["protocol"], PROTOCOL);
        assert_eq!(cred, OWNER);
    }
}
