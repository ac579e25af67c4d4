//! The manager's socket: connections, who is at their other end, and the way of a request through the
//! services.

use std::pin::Pin;
use std::sync::Arc;

use jobtap_core::engine::{Cred, Level};
use jobtap_core::job::Uid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use super::Services;
use super::audit;
use super::watch;
use crate::open_files::OpenFiles;
use crate::rpc::errno::{EINVAL, EPERM};
use crate::rpc::message::{Answer, Request, decode, encode};
use crate::rpc::{HELLO, MAX_LINE, PROTOCOL, RpcError, RpcResult};

/// Answers that may wait for a slow reader before its requests are held back.
const WAITING_ANSWERS: usize = 256;

/// The owner's role in a rolemask, as Flux numbers it.
const ROLE_OWNER: u32 = 1;

/// What is left to do for a request after it was taken in.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves connections until it is dropped, at most `room` at once; who comes then waits until one
/// ends.
pub(super) async fn serve(listener: UnixListener, services: Arc<Services>, room: usize) {
    let mut connections = JoinSet::new();
    let mut told = false;
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= room {
            if !told {
                services.log.write(Level::Warning, &full(room));
            }
            told = true;
            connections.join_next().await;
            continue;
        }
        told = told && connections.len() > room / 2;
        match listener.accept().await {
            Ok((socket, _)) => {
                connections.spawn(connection(socket, Arc::clone(&services)));
            }
            // Out of descriptors: those in use will be closed.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
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

async fn connection(socket: UnixStream, services: Arc<Services>) {
    let Ok(peer) = socket.peer_cred() else { return };
    let userid = Uid::new(peer.uid());
    let mut cred = Cred { userid, owner: userid == services.owner };
    let (read, write) = socket.into_split();
    let (answers, queue) = channel(WAITING_ANSWERS);
    let writer = tokio::spawn(write_answers(write, queue));
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    // Dropped with the connection: nobody is left to hear what these would say.
    let mut running = JoinSet::new();
    while read_line(&mut read, &mut line).await {
        while running.try_join_next().is_some() {}
        let Ok(request) = decode::<Request>(&line) else {
            break;
        };
        let answers = Answers { id: request.id, channel: answers.clone() };
        if request.topic == HELLO {
            let result = hello(&request.payload, &mut cred);
            running.spawn(async move { answers.last(result).await });
        } else {
            running.spawn(take_in(&services, cred, request, answers));
        }
    }
    drop(running);
    writer.abort();
}

/// Starts on a request: its place among the engine's inputs is that of its line on the connection.
fn take_in(services: &Arc<Services>, cred: Cred, mut request: Request, answers: Answers) -> Work {
    let Request { topic, payload, .. } = &mut request;
    let admitted = services.privacy.admit(cred, topic, payload, &services.records);
    let call = admitted.and_then(|()| super::services::decode(topic, payload, cred));
    match call.and_then(|call| services.begin(cred, call, request.stream)) {
        Err(error) => Box::pin(async move { answers.last(Err(error)).await }),
        Ok(super::Begun::One(work)) => {
            let change = audit::change(&request.topic, &request.payload).filter(|_| cred.owner);
            let services = Arc::clone(services);
            Box::pin(async move {
                let result = work.await;
                let veiled = |answer| services.privacy.veiled(cred, &request.topic, answer);
                let result = result.map(veiled);
                if let Some(change) = change {
                    services.audit.record(cred, change, &result).await;
                }
                answers.last(result).await;
            })
        }
        Ok(super::Begun::Stream(stream)) => Box::pin(relay(stream, answers)),
        Ok(super::Begun::Feed(feed)) => Box::pin(feed_on(feed, answers)),
        Ok(super::Begun::Watch(_)) if !request.stream => {
            let text = format!("{} requires streaming RPC flag", request.topic);
            Box::pin(async move { answers.last(Err(RpcError::proto(text))).await })
        }
        Ok(super::Begun::Watch(request)) => {
            let services = Arc::clone(services);
            Box::pin(async move {
                let end =
                    watch::serve(&services.records, &services.hub, cred, &request, &answers).await;
                answers.last(Err(end)).await;
            })
        }
    }
}

/// Passes on what a plugin answers, until its last word or until nobody reads it.
async fn relay(mut stream: super::replies::Answers, answers: Answers) {
    loop {
        match stream.next().await {
            Ok(answer) => {
                if watch::Sink::send(&answers, answer).await.is_err() {
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
                if watch::Sink::send(&answers, answer).await.is_err() {
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

/// The way back to one request.
struct Answers {
    id: u64,
    channel: Sender<Answer>,
}

impl Answers {
    async fn last(self, result: RpcResult) {
        let _ = self.channel.send(Answer { id: self.id, result }).await;
    }
}

impl watch::Sink for Answers {
    async fn send(&self, answer: Value) -> Result<(), ()> {
        let answer = Answer { id: self.id, result: Ok(answer) };
        self.channel.send(answer).await.map_err(|_| ())
    }
}

async fn write_answers(mut socket: OwnedWriteHalf, mut queue: Receiver<Answer>) {
    let mut text = String::new();
    while let Some(answer) = queue.recv().await {
        text.clear();
        text.push_str(&encode(&answer));
        // What else is waiting goes out with the same write.
        while let Ok(answer) = queue.try_recv() {
            text.push_str(&encode(&answer));
        }
        if socket.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the next line; false at the end, and for a line that is too long.
async fn read_line(socket: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) -> bool {
    line.clear();
    let limit = MAX_LINE as u64;
    let read = (&mut *socket).take(limit).read_until(b'\n', line).await;
    read.is_ok() && line.last() == Some(&b'\n')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
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
