//! The standard input of this process, which each command reads from its beginning.
//!
//! The amount of input that waits for a slow command is bounded: at this limit, the command holds up the input of the
//! others, as in a pipeline.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc::{Receiver, Sender};

/// The maximum number of bytes per read.
pub(super) const CHUNK: usize = 64 * 1024;

/// The maximum number of chunks that wait for a command.
const WAITING: usize = 64;

/// A part of the input, which all commands share.
type Chunk = Arc<[u8]>;

/// The channel that carries the input to one command.
pub(super) fn channel() -> (Sender<Chunk>, Receiver<Chunk>) {
    tokio::sync::mpsc::channel(WAITING)
}

/// Reads the input to its end and sends it to all commands. A command that stops reading receives no more.
pub(super) fn broadcast(mut commands: Vec<Sender<Chunk>>) {
    let mut input = std::io::stdin().lock();
    let mut buffer = vec![0; CHUNK];
    while !commands.is_empty() {
        let count = match input.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A read error counts as the end of the input.
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
