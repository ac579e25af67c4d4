//! `job-list.changes`: jobs as they change, as lists show them, for programs that keep a list up to date.
//!
//! A job that changes many times at once is sent once, as it is when it is read. So a client gets as much as it can
//! use, however fast the events come. One that does not read is not waited for: its stream is ended, and it lists
//! the jobs again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jobtap_core::engine::Cred;
use jobtap_core::job::JobId;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Context;
use super::journal::{self, Posted};
use super::privacy::Privacy;
use crate::daemon::engine::{EngineHandle, answered};
use crate::rpc::errno::EPERM;
use crate::rpc::{RpcError, RpcResult};

/// How long changes are collected after some were sent.
const PAUSE: Duration = Duration::from_millis(200);
/// How many jobs a response has at most. It is made in one turn of the engine.
const JOBS: usize = 256;
/// How many changed jobs wait to be read at most. Further events wait in the journal's own queue.
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
        loop {
            tokio::select! {
                () = responses.closed() => return Ok(()),
                event = self.events.recv() => match event {
                    Some(event) => changed.insert(event.id),
                    None => return Err(journal::end(&self.lost)),
                },
            };
            while changed.len() < WAITING_JOBS
                && let Ok(event) = self.events.try_recv()
            {
                changed.insert(event.id);
            }
            while !changed.is_empty() {
                let jobs = self.read(&mut changed).await?;
                if responses.send(Ok(json!({ "jobs": jobs }))).await.is_err() {
                    return Ok(());
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The first of the jobs that have changed, which are taken out.
    async fn read(&self, changed: &mut BTreeSet<JobId>) -> Result<Value, RpcError> {
        // The configuration may have changed since the stream began.
        if self.privacy.is_hidden_from(self.cred) {
            return Err(RpcError::new(EPERM, ""));
        }
        let mut ids = Vec::new();
        while ids.len() < JOBS
            && let Some(id) = changed.pop_first()
        {
            ids.push(id);
        }
        let jobs = self.engine.read(move |engine| {
            // A job that is not there was removed in between.
            let listed = ids.into_iter().filter_map(|id| engine.list_id(id).ok());
            let jobs = listed.filter_map(|mut listed| Some(listed.get_mut("job")?.take()));
            Ok(Value::Array(jobs.collect()))
        });
        answered(jobs).await
    }
}
