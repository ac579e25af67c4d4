//! Forwards standard input to the tasks of a job.

use std::io::Read;

use jobtap_core::job::JobId;
use tokio::sync::mpsc::channel;

use crate::client::Client;
use crate::rpc::services::job_exec::Stdin;

/// The maximum number of bytes in one request.
const CHUNK: usize = 32 * 1024;

/// Forwards standard input to the tasks `ranks`, or to all tasks if `ranks` is empty, until end of file.
///
/// A thread that is never joined reads it: a read from a terminal can't be interrupted.
pub(super) fn forward(client: Client, id: JobId, ranks: Vec<u32>) -> std::io::Result<()> {
    // Bounded, so that a fast source doesn't fill the memory while the manager is slow.
    let (sender, mut chunks) = channel::<Vec<u8>>(4);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = std::io::stdin().lock().read(&mut buffer).unwrap_or(0);
            let chunk = buffer.get(..read).unwrap_or_default().to_vec();
            let last = chunk.is_empty();
            if sender.blocking_send(chunk).is_err() || last {
                return;
            }
        }
    })?;
    tokio::spawn(async move {
        while let Some(chunk) = chunks.recv().await {
            let ranks: Vec<Option<u32>> = match ranks.as_slice() {
                // A request without a rank is for all tasks.
                [] => vec![None],
                ranks => ranks.iter().copied().map(Some).collect(),
            };
            for rank in ranks {
                let input = Stdin { id, data: chunk.clone(), eof: chunk.is_empty(), rank };
                // Refused: the tasks have exited, or don't read the input of clients.
                if client.call(input).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(())
}
