//! The responses of a connection, which its client may read slowly or not at all.
//!
//! The bytes that wait here are bounded: the task of a request waits with its response until there is room for it. A
//! list of jobs does not wait as text: each of its parts is made when the earlier ones are written.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::Charge;
use crate::daemon::engine::replies::size;
use crate::daemon::services::eventlog::Sink;
use crate::daemon::services::listing::Listing;
use crate::rpc::RpcResult;
use crate::rpc::message::Response;

/// How many bytes of responses may wait for the client to read them. A single response may be larger.
const ROOM: usize = 256 * 1024;
/// About how many bytes are written at once.
const WRITE: usize = 64 * 1024;

/// Something to be written, and the permits that it holds until then.
struct Outgoing {
    what: What,
    _room: Option<OwnedSemaphorePermit>,
    _held: Held,
    _charge: Charge,
}

enum What {
    Line(String),
    /// Written as a line when its turn comes.
    Response(Response),
    Listing(u64, Listing),
}

/// The permits that a request holds until its last response is written.
#[derive(Default)]
pub(super) struct Held(pub(super) Vec<OwnedSemaphorePermit>);

/// The queue of responses to be written to a connection.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: UnboundedSender<Outgoing>,
    room: Arc<Semaphore>,
}

/// Writes the responses of a connection.
pub(super) struct Writer {
    queue: UnboundedReceiver<Outgoing>,
}

/// The queue of a connection and its writer.
pub(super) fn outbox() -> (Outbox, Writer) {
    // Unbounded is safe: a response either waits for room for its bytes, or keeps the bytes of its request charged.
    let (sender, queue) = unbounded_channel();
    (Outbox { queue: sender, room: Arc::new(Semaphore::new(ROOM)) }, Writer { queue })
}

impl Outbox {
    /// Waits until there is room for a response.
    pub(super) async fn has_room(&self) {
        let _ = self.room.acquire().await;
    }

    async fn put(&self, line: String, held: Held) -> Result<(), ()> {
        let bytes = u32::try_from(line.len().min(ROOM)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok();
        let outgoing = Outgoing {
            what: What::Line(line),
            _room: room,
            _held: held,
            _charge: Charge::default(),
        };
        self.queue.send(outgoing).map_err(drop)
    }
}

/// Responds to one request.
pub(super) struct Responder {
    id: u64,
    outbox: Outbox,
    held: Held,
}

impl Responder {
    /// Responds to the request of this id, which holds these permits until its last response is written.
    pub(super) fn new(id: u64, outbox: Outbox, held: Held) -> Self {
        Self { id, outbox, held }
    }

    /// Sends the last or only response.
    pub(super) async fn last(self, result: RpcResult) {
        // The connection may have ended.
        let _ = self.outbox.put(Response { id: self.id, result }.encode(), self.held).await;
    }

    /// Sends one response of several.
    pub(super) async fn send(&self, response: Value) -> Result<(), ()> {
        let response = Response { id: self.id, result: Ok(response) };
        self.outbox.put(response.encode(), Held::default()).await
    }

    /// Sends the only response of a request whose responses are short, without waiting for room. A refusal may
    /// repeat a part of the request, however long: so no more requests are read while one takes all of the room,
    /// and the bytes of the request stay charged until the response is written.
    pub(super) fn short(self, result: RpcResult, charge: Charge) {
        let bytes = u32::try_from(weight(&result).min(ROOM)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.outbox.room).try_acquire_many_owned(bytes).ok();
        let what = What::Response(Response { id: self.id, result });
        let outgoing = Outgoing { what, _room: room, _held: self.held, _charge: charge };
        let _ = self.outbox.queue.send(outgoing);
    }

    /// Sends a list of jobs as the only response.
    pub(super) fn listing(self, listing: Listing) {
        let what = What::Listing(self.id, listing);
        let outgoing = Outgoing { what, _room: None, _held: self.held, _charge: Charge::default() };
        let _ = self.outbox.queue.send(outgoing);
    }
}

/// The approximate size of a response in bytes.
fn weight(result: &RpcResult) -> usize {
    match result {
        Ok(payload) => size(payload),
        Err(error) => error.messages.iter().fold(error.text.len(), |sum, text| sum + text.len()),
    }
}

impl Sink for Responder {
    async fn send_text(&self, response: &str) -> Result<(), ()> {
        let line = format!("{{\"id\":{},\"payload\":{response}}}\n", self.id);
        self.outbox.put(line, Held::default()).await
    }
}

impl Writer {
    /// Writes responses until no more can come, or the client has closed its end.
    pub(super) async fn run(mut self, mut socket: impl AsyncWrite + Unpin) {
        let mut text = String::new();
        let mut written = Vec::new();
        while let Some(first) = self.queue.recv().await {
            let mut next = Some(first);
            // One write for all that waits: a system call for each line would cost more than the line.
            while let Some(outgoing) = next {
                let Outgoing { what, _room, _held, _charge } = outgoing;
                written.push((_room, _held, _charge));
                let done = match what {
                    What::Line(line) => {
                        text.push_str(&line);
                        Ok(())
                    }
                    What::Response(response) => {
                        text.push_str(&response.encode());
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

/// Writes a list part by part; the last part is left in `text`.
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
                // The object has begun and cannot be taken back: an errno in it makes it a refusal.
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
    // Frees the memory of a long response.
    text.shrink_to(2 * WRITE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;
    use crate::rpc::errno::EINVAL;

    #[tokio::test]
    async fn a_long_refusal_takes_all_room_until_it_is_written() {
        let (outbox, writer) = outbox();
        let room = Arc::clone(&outbox.room);
        let refuse = |text: String| {
            let result = Err(RpcError::new(EINVAL, text));
            Responder::new(1, outbox.clone(), Held::default()).short(result, Charge::default());
        };
        refuse("x".repeat(100));
        assert_eq!(room.available_permits(), ROOM - 100);
        refuse("x".repeat(2 * ROOM));
        refuse("x".repeat(ROOM));
        drop(outbox);
        let mut written = Vec::new();
        writer.run(&mut written).await;
        assert_eq!(room.available_permits(), ROOM);
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 3);
    }
}
