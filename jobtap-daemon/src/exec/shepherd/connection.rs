//! A manager's connection: reads requests and writes replies, one per line.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::message::Message;
use crate::exec::protocol::{ShepherdMessage, ShepherdRequest, VERSION, decode_request, encode};
use crate::exec::socket::is_same_user;

/// Serves the connection with number `number`. Closes a connection of another user without a reply.
pub(super) fn serve(
    stream: UnixStream,
    number: u64,
    inbox: UnboundedSender<Message>,
    unhurried: Arc<AtomicBool>,
) {
    if !matches!(is_same_user(&stream), Ok(true)) {
        return;
    }
    let (read, write) = stream.into_split();
    let (outbox, replies) = unbounded_channel();
    tokio::spawn(send(write, replies, unhurried));
    tokio::spawn(async move {
        let lines = BufReader::new(read);
        if let Err(refusal) = receive(lines, number, &inbox, &outbox).await {
            let _ = outbox.send(ShepherdMessage::Refused { reason: refusal.to_string() });
        }
        let _ = inbox.send(Message::Closed { number });
    });
}

/// Why a manager's connection is closed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// A line that is no request.
    #[error("bad request: {0}")]
    Request(#[from] serde_json::Error),
    /// The manager is of another build, which speaks this version.
    #[error("the shepherd speaks version {VERSION} of the protocol, not {0}")]
    Version(u32),
    /// A request before the hello.
    #[error("the first request must be hello")]
    NoHello,
}

async fn receive(
    mut lines: BufReader<tokio::net::unix::OwnedReadHalf>,
    number: u64,
    inbox: &UnboundedSender<Message>,
    outbox: &UnboundedSender<ShepherdMessage>,
) -> Result<(), Refusal> {
    let mut line = Vec::new();
    let mut greeted = false;
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Ok(()),
            // An incomplete line: the manager died while it wrote.
            Ok(_) if line.last() != Some(&b'\n') => return Ok(()),
            Ok(_) => {}
        }
        let request = decode_request(&line)?;
        let message = match request {
            ShepherdRequest::Hello { version: VERSION } => {
                greeted = true;
                Message::Hello { number, outbox: outbox.clone() }
            }
            ShepherdRequest::Hello { version } => return Err(Refusal::Version(version)),
            _ if !greeted => return Err(Refusal::NoHello),
            request => Message::Request { number, request },
        };
        if inbox.send(message).is_err() {
            return Ok(());
        }
    }
}

/// The maximum number of replies that are written at once.
const MOST_TOGETHER: usize = 1024;

/// How long replies are gathered while the shepherd has jobs to begin by itself: nothing waits for the manager then, and
/// each write costs the manager a turn of its engine, a sync and a dozen wake-ups. The lines of jobs last for four times as
/// long.
const GATHERING: Duration = Duration::from_millis(10);

/// Writes replies until all senders are gone: the connection's reader, the shepherd and its jobs. While they are
/// `unhurried`, many are written at once.
async fn send(
    mut write: OwnedWriteHalf,
    mut replies: UnboundedReceiver<ShepherdMessage>,
    unhurried: Arc<AtomicBool>,
) -> Result<(), io::Error> {
    let mut batch = Vec::new();
    while replies.recv_many(&mut batch, MOST_TOGETHER).await > 0 {
        if unhurried.load(Ordering::Relaxed) {
            sleep(GATHERING).await;
        }
        // The replies of one pass often belong together: the end of a job follows the exit of its last task.
        // Written together, they are one change for the manager, and one sync of its disk.
        yield_now().await;
        while batch.len() < MOST_TOGETHER
            && let Ok(reply) = replies.try_recv()
        {
            batch.push(reply);
        }
        let mut text = Vec::new();
        for reply in batch.drain(..) {
            text.extend(encode(&reply)?);
        }
        write.write_all(&text).await?;
    }
    Ok(())
}
