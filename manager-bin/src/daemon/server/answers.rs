//! The answers of a connection, on their way to a peer that may read slowly or not at all.
//!
//! What waits here is bounded in bytes: a request's task waits with its answer until there is room for
//! it. A listing is no text that waits at all: its parts are made when those before them are written.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::daemon::services::job_info::watch::Sink;
use crate::daemon::services::job_list::Listing;
use crate::rpc::RpcResult;
use crate::rpc::message::{Answer, encode};

/// Bytes of answers that wait for the peer to read; a single answer may be larger.
const ROOM: usize = 256 * 1024;
/// About so many bytes are written at once.
const WRITE: usize = 64 * 1024;

/// Something to be written, and what it takes of its connection's bounds until then.
struct Outgoing {
    what: What,
    _room: Option<OwnedSemaphorePermit>,
    _held: Held,
}

enum What {
    Line(String),
    Listing(u64, Listing),
}

/// Places that a request has until its last answer is written.
#[derive(Default)]
pub(super) struct Held(pub(super) Vec<OwnedSemaphorePermit>);

/// The way out of a connection.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: UnboundedSender<Outgoing>,
    room: Arc<Semaphore>,
}

/// The writing end of a connection.
pub(super) struct Writer {
    queue: UnboundedReceiver<Outgoing>,
}

/// Both ends.
pub(super) fn outbox() -> (Outbox, Writer) {
    // Bounded by the room in bytes, which each line has before it is put on the queue.
    let (sender, queue) = unbounded_channel();
    (Outbox { queue: sender, room: Arc::new(Semaphore::new(ROOM)) }, Writer { queue })
}

impl Outbox {
    /// Waits until there is room for an answer.
    pub(super) async fn has_room(&self) {
        let _ = self.room.acquire().await;
    }

    async fn put(&self, answer: &Answer, held: Held) -> Result<(), ()> {
        let line = encode(answer);
        let bytes = u32::try_from(line.len().min(ROOM)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok();
        let outgoing = Outgoing { what: What::Line(line), _room: room, _held: held };
        self.queue.send(outgoing).map_err(drop)
    }
}

/// The way back to one request.
pub(super) struct Answers {
    id: u64,
    outbox: Outbox,
    held: Held,
}

impl Answers {
    /// Answers to the request of this id, which has these places until its last answer is written.
    pub(super) fn new(id: u64, outbox: Outbox, held: Held) -> Self {
        Self { id, outbox, held }
    }

    /// The last or only answer.
    pub(super) async fn last(self, result: RpcResult) {
        // The connection may have ended.
        let _ = self.outbox.put(&Answer { id: self.id, result }, self.held).await;
    }

    /// A listing as the answer.
    pub(super) fn listing(self, listing: Listing) {
        let what = What::Listing(self.id, listing);
        let _ = self.outbox.queue.send(Outgoing { what, _room: None, _held: self.held });
    }
}

impl Sink for Answers {
    async fn send(&self, answer: Value) -> Result<(), ()> {
        self.outbox.put(&Answer { id: self.id, result: Ok(answer) }, Held::default()).await
    }
}

impl Writer {
    /// Writes answers until none can come any more, or the peer takes none.
    pub(super) async fn run(mut self, mut socket: impl AsyncWrite + Unpin) {
        let mut text = String::new();
        let mut written = Vec::new();
        while let Some(first) = self.queue.recv().await {
            let mut next = Some(first);
            // What else is waiting goes out with the same write.
            while let Some(outgoing) = next {
                let Outgoing { what, _room, _held } = outgoing;
                written.push((_room, _held));
                let done = match what {
                    What::Line(line) => {
                        text.push_str(&line);
                        Ok(())
                    }
                    What::Listing(id, listing) => list(&mut socket, &mut text, id, listing).await,
                };
                if done.is_err() {
                    return;
                }
                next = if text.len() < WRITE { self.queue.try_recv().ok() } else { None };
            }
            if write(&mut socket, &mut text).await.is_err() {
                return;
            }
            written.clear();
        }
    }
}

/// Writes a listing part by part; the last one is left in `text`.
async fn list(
    socket: &mut (impl AsyncWrite + Unpin),
    text: &mut String,
    id: u64,
    mut listing: Listing,
) -> std::io::Result<()> {
    text.push_str(&format!("{{\"id\":{id},\"payload\":{{\"jobs\":["));
    loop {
        match listing.next().await {
            Ok(Some(part)) => {
                text.push_str(&part);
                if text.len() >= WRITE {
                    write(socket, text).await?;
                }
            }
            Ok(None) => {
                text.push_str("]}}\n");
                return Ok(());
            }
            Err(error) => {
                // The jobs so far are no answer: with an errno the message is a refusal.
                let words = Value::String(error.text);
                text.push_str(&format!("]}},\"errno\":{},\"error\":{words}}}\n", error.errno));
                return Ok(());
            }
        }
    }
}

async fn write(socket: &mut (impl AsyncWrite + Unpin), text: &mut String) -> std::io::Result<()> {
    socket.write_all(text.as_bytes()).await?;
    text.clear();
    // A long answer's memory goes with it.
    text.shrink_to(2 * WRITE);
    Ok(())
}
