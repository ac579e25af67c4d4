//! The standard input of this process, which each command reads from its beginning.
//!
//! What waits for a slow command is bounded: it then holds up the input of the others, as in a pipeline.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc::{Receiver, Sender};

/// How many bytes are read at once.
const CHUNK: usize = 64 * 1024;

/// How many chunks wait for a command.
const WAITING: usize = 64;

/// A part of the input, which all commands share.
type Chunk = Arc<[u8]>;

/// The way of the input to one command.
pub(super) fn channel() -> (Sender<Chunk>, Receiver<Chunk>) {
    tokio::sync::mpsc::channel(WAITING)
}

/// Reads the input to its end, and sends it to all commands. One that reads no more is left out from then on.
pub(super) fn broadcast(mut commands: Vec<Sender<Chunk>>) {
    let mut input = std::io::stdin().lock();
    let mut buffer = vec![0; CHUNK];
    while !commands.is_empty() {
        let count = match input.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // An input that can't be read is one that has ended.
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        let chunk: Chunk = buffer.get(..count).unwrap_or_default().into();
        commands.retain(|command| command.blocking_send(Arc::clone(&chunk)).is_ok());
    }
}

/// Writes the input of one command to its pipe, until it ends or the command closes the pipe.
pub(super) async fn feed(mut input: Receiver<Chunk>, mut pipe: ChildStdin) {
    while let Some(chunk) = input.recv().await {
        if pipe.write_all(&chunk).await.is_err() {
            return;
        }
    }
}
