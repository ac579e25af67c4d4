//! Claims make sure that a job starts at most once: before its first task is started, the shepherd
//! durably records that it starts the job.
//!
//! If the shepherd and its manager are killed together, it may be recorded nowhere else that a job was
//! started: the manager may not have committed the start yet. The next shepherd reads the claims. A
//! claimed job that it doesn't hold is lost and is never started again.
//!
//! A sync takes longer than to start a short job. So jobs that are to be begun after others are claimed *ahead*, many
//! with one sync. When such a job begins, that is only written and not synced: what a process has written outlives it. If
//! the host itself has gone down, all jobs that were claimed ahead count as begun.
//!
//! A thread of its own writes the claims, because a sync may take long and the shepherd has to reap and
//! signal processes meanwhile. Only that a job [begins](Claims::begin) is written at once, if the thread has nothing to do. Claims that are requested while one group is written form the next
//! group, so that many launches share one sync. For the same reason the shepherd collects what it has to claim
//! and to forget, and [sends](Claims::send) it when it has handled all messages that came together.

mod begun;
mod log;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use self::log::ClaimLog;
use super::system_error::plain;
use jobtap_core::job::JobId;

/// The maximum number of jobs that are claimed with one sync; it bounds the length of a line of the file.
const GROUP: usize = 1024;

/// The result of a group of claims.
pub(super) struct Claimed {
    pub(super) ids: Vec<JobId>,
    pub(super) outcome: Result<(), ClaimError>,
}

/// Why jobs could not be claimed. The text is for their users.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// The thread that writes the claims has ended.
    #[error("cannot claim the job: the shepherd's claims have failed")]
    Ended,
    /// The file can't be written.
    #[error(
        "nothing was started: cannot note in {} that the job starts: {}",
        path.display(), plain(error)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The number of jobs to forget that are collected while no job is claimed.
const MOST_FORGOTTEN: usize = 1024;

/// The jobs to claim and, after that, to forget.
#[derive(Default)]
struct ClaimRequest {
    claim: Vec<JobId>,
    claim_ahead: Vec<JobId>,
    forget: Vec<JobId>,
}

impl ClaimRequest {
    /// Doesn't forget a job, which is claimed again.
    fn keep(&mut self, id: JobId) {
        self.forget.retain(|forgotten| *forgotten != id);
    }

    /// Adds a later request.
    fn add(&mut self, later: Self) {
        let again: BTreeSet<JobId> =
            later.claim.iter().chain(&later.claim_ahead).copied().collect();
        self.forget.retain(|id| !again.contains(id));
        self.claim.extend(later.claim);
        self.claim_ahead.extend(later.claim_ahead);
        self.forget.extend(later.forget);
    }
}

/// The file, and how far the thread has come with it.
struct Written {
    log: ClaimLog,
    /// The number of requests that the thread has served.
    served: u64,
}

/// The claims of this shepherd and of those before it.
pub(super) struct Claims {
    /// Locked by the thread while it serves requests.
    written: Arc<Mutex<Written>>,
    /// The number of requests that were sent to the thread.
    sent: u64,
    /// Jobs that earlier shepherds claimed.
    earlier: BTreeSet<JobId>,
    /// The requests that were not sent yet.
    collected: ClaimRequest,
    /// `None` once they are closed.
    requests: Option<Sender<ClaimRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl Claims {
    /// Reads the claims in `state_dir`. `report` is called on the thread that writes them.
    ///
    /// # Errors
    /// Fails if the file is damaged or can't be read, or the thread can't be started.
    pub(super) fn start(
        state_dir: &Path,
        report: impl Fn(Claimed) + Send + 'static,
    ) -> io::Result<Self> {
        let log = ClaimLog::open(state_dir)?;
        let earlier = log.claimed().clone();
        let written = Arc::new(Mutex::new(Written { log, served: 0 }));
        let (requests, receiver) = channel();
        let builder = Builder::new().name("claims".to_owned());
        let of_thread = Arc::clone(&written);
        let thread = Some(builder.spawn(move || serve(&of_thread, &receiver, report))?);
        let collected = ClaimRequest::default();
        Ok(Self { written, sent: 0, earlier, collected, requests: Some(requests), thread })
    }

    /// Claims a job with the next [`send`](Self::send); [`Claimed`] reports the result.
    pub(super) fn claim(&mut self, id: JobId) {
        self.collected.keep(id);
        self.collected.claim.push(id);
    }

    /// Claims a job ahead with the next [`send`](Self::send). It still has to be claimed when it begins.
    pub(super) fn claim_ahead(&mut self, id: JobId) {
        self.collected.keep(id);
        self.collected.claim_ahead.push(id);
    }

    /// Claims a job that was claimed ahead, now that it begins. `false` if that can't be done without the thread: it
    /// syncs, or has something to do that may be about this job. Then the job is to be [claimed](Self::claim).
    ///
    /// The line is written here since the thread would take longer to wake up than to write it, before each short job.
    pub(super) fn begin(&mut self, id: JobId) -> bool {
        let Ok(mut written) = self.written.try_lock() else { return false };
        let may = written.served == self.sent && written.log.is_ahead(id);
        if !may || written.log.begin(&[id]).is_err() {
            return false;
        }
        self.collected.keep(id);
        true
    }

    /// Requests the claims of the jobs that were collected. Returns them if that fails.
    pub(super) fn send(&mut self) -> Option<Claimed> {
        let ClaimRequest { claim, claim_ahead, forget } = &self.collected;
        // Jobs that are only to be forgotten don't wake the thread, since nothing waits for that.
        if claim.is_empty() && claim_ahead.is_empty() && forget.len() < MOST_FORGOTTEN {
            return None;
        }
        let request = std::mem::take(&mut self.collected);
        let unsent = match &self.requests {
            Some(requests) => {
                self.sent += 1;
                let SendError(unsent) = requests.send(request).err()?;
                unsent
            }
            None => request,
        };
        Some(Claimed { ids: unsent.claim, outcome: Err(ClaimError::Ended) })
    }

    /// Writes what is left to be written, and waits for that: the shepherd exits.
    pub(super) fn close(&mut self) {
        if let Some(requests) = self.requests.take() {
            let _ = requests.send(std::mem::take(&mut self.collected));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Whether an earlier shepherd has claimed the job.
    pub(super) fn is_earlier(&self, id: JobId) -> bool {
        self.earlier.contains(&id)
    }

    /// The jobs that earlier shepherds have claimed.
    pub(super) fn earlier(&self) -> impl Iterator<Item = JobId> {
        self.earlier.iter().copied()
    }

    /// Drops the claim of a job whose end is durable: no manager will request its start again. The next
    /// [`send`](Self::send), or a later one, tells the thread.
    pub(super) fn forget(&mut self, id: JobId) {
        self.earlier.remove(&id);
        self.collected.forget.push(id);
    }
}

fn serve(written: &Mutex<Written>, requests: &Receiver<ClaimRequest>, report: impl Fn(Claimed)) {
    let lock = || written.lock().unwrap_or_else(PoisonError::into_inner);
    while let Ok(mut together) = requests.recv() {
        let mut written = lock();
        written.served += 1;
        while together.claim.len() < GROUP
            && let Ok(later) = requests.try_recv()
        {
            together.add(later);
            written.served += 1;
        }
        let log = &mut written.log;
        let (ahead, others): (Vec<_>, Vec<_>) =
            together.claim.into_iter().partition(|id| log.is_ahead(*id));
        begin(log, ahead, &report);
        for group in others.chunks(GROUP) {
            write(log, group, &report);
        }
        for group in together.claim_ahead.chunks(GROUP) {
            // A job that isn't claimed ahead is claimed when it begins, and then its user learns why that fails.
            let _ = log.claim_ahead(group);
        }
        // Afterwards: a claim must not be written after it was dropped.
        together.forget.into_iter().for_each(|id| log.forget(id));
    }
    // Else they would count as begun if the host goes down now. That is an error for their users, and nothing can be done
    // about it here.
    let _ = lock().log.give_back();
}

/// Claims jobs that were claimed ahead.
fn begin(log: &mut ClaimLog, ids: Vec<JobId>, report: &impl Fn(Claimed)) {
    if ids.is_empty() {
        return;
    }
    match log.begin(&ids) {
        Ok(()) => report(Claimed { ids, outcome: Ok(()) }),
        Err(_) => write(log, &ids, report),
    }
}

fn write(log: &mut ClaimLog, group: &[JobId], report: &impl Fn(Claimed)) {
    let ids = group.to_vec();
    let outcome = log.claim(&ids);
    let outcome = outcome.map_err(|error| ClaimError::Write { path: log.path().to_owned(), error });
    report(Claimed { ids, outcome });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn next(results: &Receiver<Claimed>) -> Claimed {
        results.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn jobs_are_claimed_until_their_end_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, results) = channel();
        let report = move |claimed| drop(sender.send(claimed));
        let mut claims = Claims::start(dir.path(), report.clone()).unwrap();
        let mut left = BTreeSet::from_iter((1..=9).map(JobId::new));
        left.iter().for_each(|id| claims.claim(*id));
        claims.forget(JobId::new(5));
        assert!(claims.send().is_none());
        while !left.is_empty() {
            let Claimed { ids, outcome } = next(&results);
            outcome.unwrap();
            assert!(ids.iter().all(|id| left.remove(id)), "{ids:?}");
        }
        assert!(claims.earlier().next().is_none());
        let later = Claims::start(dir.path(), report).unwrap();
        assert!(
            later.is_earlier(JobId::new(4)) && later.is_earlier(JobId::new(5)),
            "the file lags behind, safely"
        );
        // The next group shows that the one before is done.
        claims.claim(JobId::new(10));
        assert!(claims.send().is_none());
        assert_eq!(next(&results).ids, [JobId::new(10)]);
    }

    #[test]
    fn a_job_that_was_claimed_ahead_counts_when_it_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, results) = channel();
        let report = move |claimed| drop(sender.send(claimed));
        let mut claims = Claims::start(dir.path(), report.clone()).unwrap();
        (1..=3).for_each(|id| claims.claim_ahead(JobId::new(id)));
        assert!(claims.send().is_none());
        claims.claim(JobId::new(2));
        claims.claim(JobId::new(4));
        claims.forget(JobId::new(3));
        assert!(claims.send().is_none());
        let mut claimed: Vec<JobId> = Vec::new();
        while claimed.len() < 2 {
            let Claimed { ids, outcome } = next(&results);
            outcome.unwrap();
            claimed.extend(ids);
        }
        let later = Claims::start(dir.path(), report).unwrap();
        assert!(later.earlier().eq([2, 4].map(JobId::new)));
    }

    #[test]
    fn a_job_that_was_claimed_ahead_begins_without_the_thread() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, results) = channel();
        let report = move |claimed| drop(sender.send(claimed));
        let mut claims = Claims::start(dir.path(), report.clone()).unwrap();
        let [one, two, other, again] = [1, 2, 3, 5].map(JobId::new);
        assert!(!claims.begin(one), "it isn't claimed ahead");
        for id in [one, two, again] {
            claims.claim_ahead(id);
        }
        assert!(!claims.begin(one), "that it is claimed ahead isn't durable");
        claims.claim(other);
        assert!(claims.send().is_none());
        while !claims.begin(one) {
            std::thread::yield_now();
        }
        assert!(!claims.begin(one), "it has begun");
        assert_eq!(next(&results).ids, [other]);
        // It was given back, which isn't written yet, and is handed over once more.
        claims.forget(again);
        assert!(claims.begin(again) && claims.collected.forget.is_empty());
        // What may be on its way to the thread comes first, and what the thread does.
        claims.sent += 1;
        assert!(!claims.begin(two));
        claims.sent -= 1;
        let lock = Arc::clone(&claims.written);
        let served = lock.lock().unwrap();
        claims.forget(two);
        claims.claim(JobId::new(4));
        assert!(claims.send().is_none());
        assert!(!claims.begin(two));
        drop(served);
        assert_eq!(next(&results).ids, [JobId::new(4)]);
        let later = Claims::start(dir.path(), report).unwrap();
        assert!(later.earlier().eq([1, 3, 4, 5].map(JobId::new)));
    }

    #[test]
    fn a_job_that_is_claimed_after_it_was_given_back_stays_claimed() {
        let id = JobId::new(1);
        let mut collected = ClaimRequest { forget: vec![id], ..ClaimRequest::default() };
        collected.keep(id);
        assert!(collected.forget.is_empty());
        let mut together = ClaimRequest { forget: vec![id], ..ClaimRequest::default() };
        together.add(ClaimRequest { claim: vec![id], ..ClaimRequest::default() });
        assert!(together.forget.is_empty() && together.claim == [id]);
    }

    #[test]
    fn a_claim_that_cannot_be_written_is_an_error_for_the_user() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("shepherd.claims.next")).unwrap();
        let (sender, results) = channel();
        let report = move |claimed| drop(sender.send(claimed));
        let mut claims = Claims::start(dir.path(), report).unwrap();
        claims.claim(JobId::new(3));
        assert!(claims.send().is_none());
        let Claimed { ids, outcome } = next(&results);
        let note = outcome.unwrap_err().to_string();
        assert_eq!(ids, [JobId::new(3)]);
        assert!(note.starts_with("nothing was started: cannot note in /"), "{note}");
        assert!(note.ends_with("shepherd.claims that the job starts: Is a directory"), "{note}");
    }
}
