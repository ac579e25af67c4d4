//! Claims make sure that a job starts at most once: before its first task is started, the shepherd
//! durably records that it starts the job.
//!
//! If the shepherd and its manager are killed together, it may be recorded nowhere else that a job was
//! started: the manager may not have committed the start yet. The next shepherd reads the claims. A
//! claimed job that it doesn't hold is lost and is never started again.
//!
//! A thread of its own writes the claims, because a sync may take long and the shepherd has to reap and
//! signal processes meanwhile. Claims that are requested while one group is written form the next
//! group, so that many launches share one sync.

mod log;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use self::log::ClaimLog;
use super::system_error::plain;
use jobtap_core::job::JobId;

/// The most jobs that are claimed with one sync; it bounds the length of a line of the file.
const GROUP: usize = 1024;

/// The result of a group of claims. The error is for the users of the jobs.
pub(super) struct Claimed {
    pub(super) ids: Vec<JobId>,
    pub(super) outcome: Result<(), String>,
}

enum ClaimRequest {
    Claim(JobId),
    Forget(JobId),
}

/// The claims of this shepherd and of those before it.
pub(super) struct Claims {
    /// Jobs that earlier shepherds claimed.
    earlier: BTreeSet<JobId>,
    requests: Sender<ClaimRequest>,
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
        let (requests, receiver) = channel();
        Builder::new().name("claims".to_owned()).spawn(move || serve(log, &receiver, report))?;
        Ok(Self { earlier, requests })
    }

    /// Requests the claim of a job; [`Claimed`] reports the result. The error is for the user.
    pub(super) fn claim(&self, id: JobId) -> Result<(), String> {
        let sent = self.requests.send(ClaimRequest::Claim(id));
        sent.map_err(|_| "cannot claim the job: the shepherd's claims have failed".to_owned())
    }

    /// Whether an earlier shepherd has claimed the job.
    pub(super) fn is_earlier(&self, id: JobId) -> bool {
        self.earlier.contains(&id)
    }

    /// The jobs that earlier shepherds have claimed.
    pub(super) fn earlier(&self) -> impl Iterator<Item = JobId> {
        self.earlier.iter().copied()
    }

    /// Drops the claim of a job whose end is durable: no manager will request its start again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.earlier.remove(&id);
        // Fails only if the thread has ended. Then no job is claimed or started any more, and the claim
        // that stays does no harm.
        let _ = self.requests.send(ClaimRequest::Forget(id));
    }
}

fn serve(mut log: ClaimLog, requests: &Receiver<ClaimRequest>, report: impl Fn(Claimed)) {
    let mut group = Vec::new();
    while let Ok(first) = requests.recv() {
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                ClaimRequest::Claim(id) => group.push(id),
                ClaimRequest::Forget(id) => {
                    // In order: the claim must not be written after it was dropped.
                    if group.contains(&id) {
                        write(&mut log, &mut group, &report);
                    }
                    log.forget(id);
                }
            }
            next = if group.len() < GROUP { requests.try_recv().ok() } else { None };
        }
        write(&mut log, &mut group, &report);
    }
}

fn write(log: &mut ClaimLog, group: &mut Vec<JobId>, report: &impl Fn(Claimed)) {
    if group.is_empty() {
        return;
    }
    let ids = std::mem::take(group);
    let outcome = log.claim(&ids).map_err(|error| {
        let path = log.path().display();
        format!("nothing was started: cannot note in {path} that the job starts: {}", plain(&error))
    });
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
        left.iter().for_each(|id| claims.claim(*id).unwrap());
        claims.forget(JobId::new(5));
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
        claims.claim(JobId::new(10)).unwrap();
        assert_eq!(next(&results).ids, [JobId::new(10)]);
    }

    #[test]
    fn a_claim_that_cannot_be_written_is_an_error_for_the_user() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("shepherd.claims.next")).unwrap();
        let (sender, results) = channel();
        let claims = Claims::start(dir.path(), move |claimed| drop(sender.send(claimed))).unwrap();
        claims.claim(JobId::new(3)).unwrap();
        let Claimed { ids, outcome } = next(&results);
        let note = outcome.unwrap_err();
        assert_eq!(ids, [JobId::new(3)]);
        assert!(note.starts_with("nothing was started: cannot note in /"), "{note}");
        assert!(note.ends_with("shepherd.claims that the job starts: Is a directory"), "{note}");
    }
}
