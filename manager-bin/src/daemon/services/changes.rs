//! `job-list.changes`: jobs as they change, as lists show them, for programs that keep a list up to date.
//!
//! A job that changes many times at once is sent once, as it is when it is read. So a client gets as much as it can
//! use, however fast the events come. While it reads nothing, only the ids of the jobs are kept; when there are too
//! many of them its stream is ended, and it lists the jobs again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jobtap_core::engine::Cred;
use jobtap_core::job::JobId;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Permit, Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::Context;
use super::job_list::BYTES;
use super::journal::{self, Posted};
use super::privacy::Privacy;
use crate::daemon::engine::{EngineHandle, answered};
use crate::rpc::errno::EPERM;
use crate::rpc::{RpcError, RpcResult};

/// How long changes are collected after some were sent.
const PAUSE: Duration = Duration::from_millis(200);
/// How many jobs a response has at most, if they don't have [`BYTES`] before. It is made in one turn of the engine.
const JOBS: usize = 256;
/// How many changed jobs wait for the client at most.
const WAITING_JOBS: usize = 16 * 1024;

/// Begins a stream for the client of `context`.
pub(super) fn stream(context: &Context<'_>) -> Receiver<RpcResult> {
    let (events, lost) = context.parts.journal.watch();
    let (responses, receiver) = channel(1);
    let changes = Changes {
        engine: context.engine.clone(),
        privacy: Arc::clone(&context.parts.privacy),
        cred: context.cred,
        events,
        lost,
    };
    tokio::spawn(async move {
        if let Err(end) = changes.send_to(&responses).await {
            let _ = responses.send(Err(end)).await;
        }
    });
    receiver
}

struct Changes {
    engine: EngineHandle,
    privacy: Arc<Privacy>,
    cred: Cred,
    events: Receiver<Posted>,
    lost: Arc<AtomicBool>,
}

impl Changes {
    /// Sends changes until the client leaves.
    ///
    /// # Errors
    /// What ends the stream before.
    async fn send_to(mut self, responses: &Sender<RpcResult>) -> Result<(), RpcError> {
        if responses.send(Ok(json!({ "jobs": [] }))).await.is_err() {
            return Ok(());
        }
        let mut changed = BTreeSet::new();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = responses.closed() => return Ok(()),
                // Also while the client reads nothing, so that no event waits in memory.
                event = self.events.recv() => {
                    let Some(event) = event else { return Err(journal::end(&self.lost)) };
                    changed.insert(event.id);
                    if changed.len() > WAITING_JOBS {
                        return Err(journal::too_slow());
                    }
                }
                place = place(responses, next), if !changed.is_empty() => {
                    let Ok(place) = place else { return Ok(()) };
                    let (jobs, rest) = self.read(std::mem::take(&mut changed)).await?;
                    place.send(Ok(json!({ "jobs": jobs })));
                    if rest.is_empty() {
                        next = Instant::now() + PAUSE;
                    }
                    changed = rest;
                }
            }
        }
    }

    /// The first of the jobs that have changed, and which ones are left.
    async fn read(
        &self,
        mut changed: BTreeSet<JobId>,
    ) -> Result<(Vec<Value>, BTreeSet<JobId>), RpcError> {
        // The configuration may have changed since the stream began.
        if self.privacy.is_hidden_from(self.cred) {
            return Err(RpcError::new(EPERM, ""));
        }
        let read = self.engine.read(move |engine| {
            let (mut jobs, mut bytes) = (Vec::new(), 0);
            while jobs.len() < JOBS
                && bytes < BYTES
                && let Some(id) = changed.pop_first()
            {
                // A job that is not there was removed in between.
                let Ok(mut listed) = engine.list_id(id) else { continue };
                let job = listed.get_mut("job").map(Value::take).unwrap_or_default();
                bytes += job.to_string().len();
                jobs.push(job);
            }
            Ok((jobs, changed))
        });
        answered(read).await
    }
}

/// Room for a response, from `next` on.
async fn place(
    responses: &Sender<RpcResult>,
    next: Instant,
) -> Result<Permit<'_, RpcResult>, SendError<()>> {
    sleep_until(next).await;
    responses.reserve().await
}
