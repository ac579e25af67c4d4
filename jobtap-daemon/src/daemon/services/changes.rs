//! `job-list.changes`: the jobs that change, as lists show them, for programs that keep a list up to date.
//!
//! A job that changes many times at once is sent once, in its state at that time. So a client gets as much as it can
//! use, however fast the events come. While it reads nothing, only the ids of the changed jobs are kept; when there are
//! too many of them the stream ends, and the client has to list the jobs again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::Cred;
use jobtap_core::job::JobId;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Permit, Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::events_journal;
use super::handle::Context;
use super::listing::BYTES;
use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::rights::privacy::{Claim, Privacy};
use crate::daemon::watchers::journal::JournalWatch;
use crate::rpc::errno::EPERM;
use crate::rpc::{RpcError, RpcResult};

/// How long changes are collected after some were sent.
const PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of jobs in a response, unless they reach [`BYTES`] first. A response is made in one turn of the
/// engine.
const JOBS: usize = 256;
/// The maximum number of changed jobs that wait for the client.
const WAITING_JOBS: usize = 16 * 1024;

/// Begins a stream for the client of `context`.
pub(super) fn stream(context: &Context<'_>) -> Receiver<RpcResult> {
    let changes = Changes {
        engine: context.engine.clone(),
        privacy: Arc::clone(&context.parts.privacy),
        cred: context.cred,
        claim: context.claim,
        events: context.parts.journal.watch(),
    };
    changes.start()
}

struct Changes {
    engine: EngineHandle,
    privacy: Arc<Privacy>,
    cred: Cred,
    claim: Claim,
    events: JournalWatch,
}

impl Changes {
    /// Sends changes until the client leaves, or until an error ends the stream.
    fn start(self) -> Receiver<RpcResult> {
        let (responses, receiver) = channel(1);
        tokio::spawn(async move {
            if let Err(end) = self.send_to(&responses).await {
                let _ = responses.send(Err(end)).await;
            }
        });
        receiver
    }

    /// Sends changes until the client leaves.
    ///
    /// # Errors
    /// The reason why the stream ends before that.
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
                event = self.events.next() => {
                    let Some(event) = event else { return Err(events_journal::end(&self.events)) };
                    changed.insert(event.id);
                    if changed.len() > WAITING_JOBS {
                        return Err(events_journal::too_slow());
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

    /// Returns the first of the changed jobs, and the ids of the remaining ones.
    async fn read(
        &self,
        mut changed: BTreeSet<JobId>,
    ) -> Result<(Vec<Value>, BTreeSet<JobId>), RpcError> {
        // The configuration may have changed since the stream began.
        if self.privacy.is_hidden_from(self.cred, self.claim) {
            return Err(RpcError::new(EPERM, ""));
        }
        let read = self.engine.read(move |engine| {
            let (mut jobs, mut bytes) = (Vec::new(), 0);
            while jobs.len() < JOBS
                && bytes < BYTES
                && let Some(id) = changed.pop_first()
            {
                // A job that is not found was purged in between.
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

/// Waits until `next`, and for room for a response.
async fn place(
    responses: &Sender<RpcResult>,
    next: Instant,
) -> Result<Permit<'_, RpcResult>, SendError<()>> {
    sleep_until(next).await;
    responses.reserve().await
}

#[cfg(test)]
mod tests {
    use jobtap_core::eventlog::EventEntry;
    use jobtap_core::job::{Timestamp, Uid};
    use tokio::task::yield_now;

    use super::*;
    use crate::daemon::watchers::journal::JournalWatchers;
    use crate::rpc::errno::EOVERFLOW;

    /// A stream whose engine doesn't respond, and the journal that it watches.
    fn changes() -> (Changes, JournalWatchers) {
        let journal = JournalWatchers::default();
        let changes = Changes {
            engine: EngineHandle::new(Arc::default()),
            privacy: Arc::default(),
            cred: Cred { userid: Uid::new(1), owner: false },
            claim: Claim::Nothing,
            events: journal.watch(),
        };
        (changes, journal)
    }

    fn publish(journal: &JournalWatchers, id: usize) {
        let timestamp = Timestamp::from_secs(1.5);
        let entry = Arc::new(EventEntry { timestamp, name: "x".into(), context: None });
        journal.publish(JobId::new(id as u64), None, &entry);
    }

    /// Lets the stream receive the events, which may end it: then it receives no more.
    async fn settle(journal: &JournalWatchers) {
        for _ in 0..1024 {
            publish(journal, 0);
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_to_list_again() {
        let (changes, journal) = changes();
        let mut responses = changes.start();
        for id in 0..=WAITING_JOBS {
            publish(&journal, id);
        }
        settle(&journal).await;
        assert_eq!(journal.listeners(), 0);
        assert_eq!(responses.recv().await, Some(Ok(json!({ "jobs": [] }))));
        let end = responses.recv().await.unwrap().unwrap_err();
        assert_eq!(end.errno, EOVERFLOW);
        assert_eq!(responses.recv().await, None);
    }

    #[tokio::test]
    async fn many_changes_of_the_same_jobs_wait_for_the_reader() {
        let (changes, journal) = changes();
        let responses = changes.start();
        for event in 0..2 * WAITING_JOBS {
            publish(&journal, event % WAITING_JOBS);
        }
        settle(&journal).await;
        assert_eq!(journal.listeners(), 1);
        drop(responses);
        settle(&journal).await;
        assert_eq!(journal.listeners(), 0);
    }
}
