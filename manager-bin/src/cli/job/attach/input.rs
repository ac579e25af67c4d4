//! Forwards standard input to the tasks of a job.

use std::io::Read;
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use serde_json::Value;
use tokio::sync::mpsc::channel;

use crate::client::Client;
use crate::rpc::services::job_exec::Stdin;
use crate::rpc::services::job_list::ListId;

/// The maximum number of bytes in one request.
const CHUNK: usize = 32 * 1024;

/// The interval between checks whether this program is in the foreground again.
const LOOK: Duration = Duration::from_millis(200);

/// Whether this program runs in the background, so that what is typed at the terminal is meant for another program.
/// Reading it would stop this program.
fn is_anothers_terminal() -> bool {
    tcgetpgrp(std::io::stdin()).is_ok_and(|foreground| foreground != getpgrp())
}

/// Sends end of file to all tasks of a job except `ranks`.
pub(super) async fn close_others(client: &Client, id: JobId, ranks: &[u32]) {
    let Ok(response) = client.call(ListId { id, attrs: &["ntasks"] }).await else { return };
    let ntasks = response.job.get("ntasks").and_then(Value::as_u64).unwrap_or_default();
    let tasks = 0..u32::try_from(ntasks).unwrap_or(u32::MAX);
    for rank in tasks.filter(|rank| !ranks.contains(rank)) {
        let end = Stdin { id, data: Vec::new(), eof: true, rank: Some(rank) };
        // Refused: the tasks have exited.
        if client.call(end).await.is_err() {
            return;
        }
    }
}

/// Forwards standard input to the tasks `ranks`, or to all tasks if `ranks` is empty, until end of file.
///
/// A thread that is never joined reads it: a read from a terminal can't be interrupted.
pub(super) fn forward(client: Client, id: JobId, ranks: Vec<u32>) -> std::io::Result<()> {
    // Bounded, so that a fast source doesn't fill the memory while the manager is slow.
    let (sender, mut chunks) = channel::<Vec<u8>>(4);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            while is_anothers_terminal() {
                std::thread::sleep(LOOK);
            }
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
