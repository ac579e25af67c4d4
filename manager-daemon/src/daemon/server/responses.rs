//! The responses of a connection, which its client may read slowly or not at all.
//!
//! The bytes that wait here are bounded: the task of a request waits with its response until there is room
//! for it. A list of jobs does not wait as text: each of its parts is made when those before it are
//! written.
//!
//! Responses are written by a task of the connection, many at once. A single one, with which the manager has nothing else
//! to do, is written by the thread that has it, if nothing waits before it: to wake the task would take as long as all
//! work of the manager for a small request.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::Charge;
use crate::daemon::engine::replies::size;
use crate::daemon::services::job_info::watch::Sink;
use crate::daemon::services::job_list::Listing;
use crate::rpc::RpcResult;
use crate::rpc::message::Response;

/// How many bytes of responses wait for the client to read them. A single response may be larger.
const ROOM: usize = 256 * 1024;
/// About how many bytes are written at once.
const WRITE: usize = 64 * 1024;

/// Something to be written, and the permits that it has until then.
struct Outgoing {
    what: What,
    _room: Option<OwnedSemaphorePermit>,
    _held: Held,
    _charge: Charge,
}

enum What {
    Line(String),
    /// The end of a line whose beginning is written.
    Rest(Vec<u8>),
    /// Written as a line when its turn comes.
    Response(Response),
    Listing(u64, Listing),
}

/// The permits that a request has until its last response is written.
#[derive(Default)]
pub(super) struct Held(pub(super) Vec<OwnedSemaphorePermit>);

/// The writing end of a connection's socket.
struct Socket {
    half: OwnedWriteHalf,
    /// How many responses are queued, or are being written by the [`Writer`]. Who writes another one while there is none
    /// has the lock, so that lines don't mix.
    queued: Mutex<usize>,
}

impl Socket {
    fn queued(&self) -> MutexGuard<'_, usize> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.half.try_write(bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.half.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The queue of responses to be written to a connection.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: UnboundedSender<Outgoing>,
    room: Arc<Semaphore>,
    /// Weak, since a request that waits must not keep the socket of a client that has left.
    socket: Weak<Socket>,
}

/// Writes the responses of a connection.
pub(super) struct Writer {
    queue: UnboundedReceiver<Outgoing>,
    socket: Arc<Socket>,
}

/// The queue of a connection and its writer.
pub(super) fn outbox(half: OwnedWriteHalf) -> (Outbox, Writer) {
    // Unbounded is safe: a response either waits for room for its bytes, or keeps the bytes of its request charged.
    let (sender, queue) = unbounded_channel();
    let socket = Arc::new(Socket { half, queued: Mutex::new(0) });
    let room = Arc::new(Semaphore::new(ROOM));
    let outbox = Outbox { queue: sender, room, socket: Arc::downgrade(&socket) };
    (outbox, Writer { queue, socket })
}

impl Outbox {
    /// Queues a response. An error means that the connection has ended.
    fn queue(&self, outgoing: Outgoing) -> Result<(), ()> {
        let socket = self.socket.upgrade().ok_or(())?;
        *socket.queued() += 1;
        self.queue.send(outgoing).map_err(drop)
    }

    /// Writes a response at once if no other one is queued, and queues what can't be written.
    fn write_or_queue(
        &self,
        response: Response,
        permits: (Option<OwnedSemaphorePermit>, Held, Charge),
    ) {
        let Some(socket) = self.socket.upgrade() else { return };
        let mut queued = socket.queued();
        let what = if *queued == 0 {
            let mut line = response.encode().into_bytes();
            match socket.half.try_write(&line) {
                Ok(written) if written == line.len() => return,
                Ok(written) => What::Rest(line.split_off(written)),
                // The socket is full, or the client has left, which the writer notices.
                Err(_) => What::Rest(line),
            }
        } else {
            What::Response(response)
        };
        *queued += 1;
        let (_room, _held, _charge) = permits;
        // Fails only if the connection has ended.
        let _ = self.queue.send(Outgoing { what, _room, _held, _charge });
    }

    /// Waits until there is room for a response.
    pub(super) async fn has_room(&self) {
        let _ = self.room.acquire().await;
    }

    async fn put(&self, response: &Response, held: Held) -> Result<(), ()> {
        let line = response.encode();
        let bytes = u32::try_from(line.len().min(ROOM)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok();
        let outgoing = Outgoing {
            what: What::Line(line),
            _room: room,
            _held: held,
            _charge: Charge::default(),
        };
        self.queue(outgoing)
    }
}

/// Responds to one request.
pub(super) struct Responder {
    id: u64,
    outbox: Outbox,
    held: Held,
}

impl Responder {
    /// Responds to the request of this id, which has these permits until its last response is written.
    pub(super) fn new(id: u64, outbox: Outbox, held: Held) -> Self {
        Self { id, outbox, held }
    }

    /// Sends the last or only response.
    pub(super) async fn last(self, result: RpcResult) {
        // The connection may have ended.
        let _ = self.outbox.put(&Response { id: self.id, result }, self.held).await;
    }

    /// Sends the only response of a request whose responses are short, without waiting for room. A refusal may
    /// repeat a part of the request, however long: so no more requests are read while one takes all of the room,
    /// and the bytes of the request stay charged until the response is written.
    ///
    /// `alone` says that no other response is known to follow soon: then it is worth a system call of its own.
    pub(super) fn short(self, result: RpcResult, charge: Charge, alone: bool) {
        let bytes = u32::try_from(weight(&result).min(ROOM)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.outbox.room).try_acquire_many_owned(bytes).ok();
        let response = Response { id: self.id, result };
        if alone {
            return self.outbox.write_or_queue(response, (room, self.held, charge));
        }
        let what = What::Response(response);
        let outgoing = Outgoing { what, _room: room, _held: self.held, _charge: charge };
        // Fails only if the connection has ended.
        let _ = self.outbox.queue(outgoing);
    }

    /// Sends a list of jobs as the only response.
    pub(super) fn listing(self, listing: Listing) {
        let what = What::Listing(self.id, listing);
        let outgoing = Outgoing { what, _room: None, _held: self.held, _charge: Charge::default() };
        // Fails only if the connection has ended.
        let _ = self.outbox.queue(outgoing);
    }
}

/// About how many bytes a response has.
fn weight(result: &RpcResult) -> usize {
    match result {
        Ok(payload) => size(payload),
        Err(error) => error.messages.iter().fold(error.text.len(), |sum, text| sum + text.len()),
    }
}

impl Sink for Responder {
    async fn send(&self, response: Value) -> Result<(), ()> {
        self.outbox.put(&Response { id: self.id, result: Ok(response) }, Held::default()).await
    }
}

impl Writer {
    /// Writes responses until no more can come, or the client has closed its end.
    pub(super) async fn run(mut self) {
        let socket = &*self.socket;
        let mut text = Vec::new();
        let mut written = Vec::new();
        while let Some(first) = self.queue.recv().await {
            let mut next = Some(first);
            // One write for all that waits: a system call for each line would cost more than the line.
            while let Some(outgoing) = next {
                let Outgoing { what, _room, _held, _charge } = outgoing;
                written.push((_room, _held, _charge));
                let done = match what {
                    What::Line(line) => {
                        text.extend_from_slice(line.as_bytes());
                        Ok(())
                    }
                    What::Rest(bytes) => {
                        text.extend_from_slice(&bytes);
                        Ok(())
                    }
                    What::Response(response) => {
                        text.extend_from_slice(response.encode().as_bytes());
                        Ok(())
                    }
                    What::Listing(id, listing) => list(socket, &mut text, id, listing).await,
                };
                if done.is_err() {
                    return;
                }
                next = if text.len() < WRITE { self.queue.try_recv().ok() } else { None };
            }
            if write(socket, &mut text).await.is_err() {
                return;
            }
            *socket.queued() -= written.len();
            written.clear();
        }
    }
}

/// Writes a list part by part; the last part is left in `text`.
async fn list(
    socket: &Socket,
    text: &mut Vec<u8>,
    id: u64,
    mut listing: Listing,
) -> io::Result<()> {
    text.extend(format!("{{\"id\":{id},\"payload\":{{\"jobs\":[").into_bytes());
    loop {
        match listing.next().await {
            Ok(Some(part)) => {
                text.extend_from_slice(part.as_bytes());
                if text.len() >= WRITE {
                    write(socket, text).await?;
                }
            }
            Ok(None) => {
                text.extend_from_slice(b"]}}\n");
                return Ok(());
            }
            Err(error) => {
                // The object has begun and cannot be taken back: an errno in it makes it a refusal.
                let words = Value::String(error.text);
                let end = format!("]}},\"errno\":{},\"error\":{words}}}\n", error.errno);
                text.extend(end.into_bytes());
                return Ok(());
            }
        }
    }
}

async fn write(socket: &Socket, text: &mut Vec<u8>) -> io::Result<()> {
    socket.write_all(text).await?;
    text.clear();
    // Frees the memory of a long response.
    text.shrink_to(2 * WRITE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;
    use tokio::net::unix::OwnedReadHalf;

    use super::*;
    use crate::rpc::RpcError;
    use crate::rpc::errno::EINVAL;

    /// A connection, and what its client reads from.
    fn connection() -> (Outbox, Writer, OwnedReadHalf) {
        let (ours, clients) = UnixStream::pair().unwrap();
        let (outbox, writer) = outbox(ours.into_split().1);
        (outbox, writer, clients.into_split().0)
    }

    fn respond(outbox: &Outbox, id: u64, text: &str, alone: bool) {
        let responder = Responder::new(id, outbox.clone(), Held::default());
        responder.short(Ok(json!(text)), Charge::default(), alone);
    }

    /// The ids of all responses until the connection ends, which have the text that `respond` gave them.
    async fn ids(mut client: OwnedReadHalf, text: &str) -> Vec<u64> {
        let mut lines = String::new();
        client.read_to_string(&mut lines).await.unwrap();
        let response = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["payload"], text);
            line["id"].as_u64().unwrap()
        };
        lines.lines().map(response).collect()
    }

    #[tokio::test]
    async fn a_long_refusal_takes_all_room_until_it_is_written() {
        let (outbox, writer, mut client) = connection();
        let room = Arc::clone(&outbox.room);
        let refuse = |text: String| {
            let result = Err(RpcError::new(EINVAL, text));
            let responder = Responder::new(1, outbox.clone(), Held::default());
            responder.short(result, Charge::default(), false);
        };
        refuse("x".repeat(100));
        assert_eq!(room.available_permits(), ROOM - 100);
        refuse("x".repeat(2 * ROOM));
        refuse("x".repeat(ROOM));
        drop(outbox);
        let mut written = Vec::new();
        tokio::join!(writer.run(), async { client.read_to_end(&mut written).await.unwrap() });
        assert_eq!(room.available_permits(), ROOM);
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 3);
    }

    #[tokio::test]
    async fn a_response_that_is_alone_needs_no_task_to_be_written() {
        let (outbox, writer, client) = connection();
        respond(&outbox, 1, "ƒ", true);
        respond(&outbox, 2, "ƒ", true);
        drop((outbox, writer));
        assert_eq!(ids(client, "ƒ").await, [1, 2]);
    }

    #[tokio::test]
    async fn responses_keep_their_order() {
        let (outbox, writer, client) = connection();
        for (id, alone) in [(1, true), (2, false), (3, true), (4, false)] {
            respond(&outbox, id, "ƒ", alone);
        }
        drop(outbox);
        let ((), ids) = tokio::join!(writer.run(), ids(client, "ƒ"));
        assert_eq!(ids, [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_client_that_reads_late_gets_each_response_whole() {
        let (outbox, writer, client) = connection();
        // More than a socket holds, and no multiple of it.
        let text = "ƒ".repeat(50_001);
        let responses = async {
            for id in 1..=20 {
                respond(&outbox, id, &text, true);
                tokio::task::yield_now().await;
            }
            drop(outbox);
        };
        let ((), (), ids) = tokio::join!(responses, writer.run(), ids(client, &text));
        assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn a_waiting_request_does_not_keep_the_socket_of_a_client_that_has_left() {
        let (outbox, writer, mut client) = connection();
        drop(writer);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the socket is closed");
        respond(&outbox, 1, "ƒ", true);
        respond(&outbox, 2, "ƒ", false);
    }
}
