//! At most once: before the first process of a job is started the job is claimed, durably.
//!
//! A shepherd that is killed together with its manager takes the knowledge with it that a job was
//! started: what the manager had heard of that may not be on record yet. The next shepherd reads the
//! claims, and a job in them that it doesn't hold is lost; it is never started again.
//!
//! Claims are written by a thread of their own, because a sync may take long and the shepherd has
//! processes to reap and to signal meanwhile. What comes while one group is written is the next
//! group, so that many starts share one sync.

mod log;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use self::log::ClaimLog;
use super::taskio::plain;
use jobtap_core::job::JobId;

/// Jobs that are claimed with one sync at most: it bounds a line of the file.
const GROUP: usize = 1024;

/// What became of claims: the jobs, or why they can't be claimed, for their users.
pub(super) struct Claimed {
    pub(super) ids: Vec<JobId>,
    pub(super) outcome: Result<(), String>,
}

enum Request {
    Claim(JobId),
    Forget(JobId),
}

/// The claims of this shepherd and of those before it.
pub(super) struct Claims {
    /// Jobs of an earlier shepherd, which is gone.
    earlier: BTreeSet<JobId>,
    requests: Sender<Request>,
}

impl Claims {
    /// Reads the claims in `state_dir`. `tell` is called on the thread that writes them.
    ///
    /// # Errors
    /// The file is damaged or can't be read, or there is no thread to be had.
    pub(super) fn start(
        state_dir: &Path,
        tell: impl Fn(Claimed) + Send + 'static,
    ) -> io::Result<Self> {
        let log = ClaimLog::open(state_dir)?;
        let earlier = log.claimed().clone();
        let (requests, receiver) = channel();
        Builder::new().name("claims".to_owned()).spawn(move || serve(log, &receiver, tell))?;
        Ok(Self { earlier, requests })
    }

    /// Asks for the claim of a job; [`Claimed`] tells. The error is for the user.
    pub(super) fn claim(&self, id: JobId) -> Result<(), String> {
        let asked = self.requests.send(Request::Claim(id));
        asked.map_err(|_| "cannot claim the job: the shepherd's claims have failed".to_owned())
    }

    /// Whether an earlier shepherd has begun to start the job.
    pub(super) fn is_earlier(&self, id: JobId) -> bool {
        self.earlier.contains(&id)
    }

    /// The jobs that an earlier shepherd has begun to start.
    pub(super) fn earlier(&self) -> impl Iterator<Item = JobId> {
        self.earlier.iter().copied()
    }

    /// The end of the job is on durable record: no manager will ask for its start again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.earlier.remove(&id);
        // Without the thread no job is started any more, and the claim does no harm.
        let _ = self.requests.send(Request::Forget(id));
    }
}

fn serve(mut log: ClaimLog, requests: &Receiver<Request>, tell: impl Fn(Claimed)) {
    let mut group = Vec::new();
    while let Ok(first) = requests.recv() {
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Claim(id) => group.push(id),
                Request::Forget(id) => {
                    if group.contains(&id) {
                        write(&mut log, &mut group, &tell);
                    }
                    log.forget(id);
                }
            }
            next = if group.len() < GROUP { requests.try_recv().ok() } else { None };
        }
        write(&mut log, &mut group, &tell);
    }
}

fn write(log: &mut ClaimLog, group: &mut Vec<JobId>, tell: &impl Fn(Claimed)) {
    if group.is_empty() {
        return;
    }
    let ids = std::mem::take(group);
    let outcome = log.claim(&ids).map_err(|error| {
        let path = log.path().display();
        format!("nothing was started: cannot note in {path} that the job starts: {}", plain(&error))
    });
    tell(Claimed { ids, outcome });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn next(told: &Receiver<Claimed>) -> Claimed {
        told.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn jobs_are_claimed_until_their_end_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, told) = channel();
        let tell = move |claimed| drop(sender.send(claimed));
        let mut claims = Claims::start(dir.path(), tell.clone()).unwrap();
        let mut left = BTreeSet::from_iter((1..=9).map(JobId::new));
        left.iter().for_each(|id| claims.claim(*id).unwrap());
        claims.forget(JobId::new(5));
        while !left.is_empty() {
            let Claimed { ids, outcome } = next(&told);
            outcome.unwrap();
            assert!(ids.iter().all(|id| left.remove(id)), "{ids:?}");
        }
        assert!(claims.earlier().next().is_none());
        let later = Claims::start(dir.path(), tell).unwrap();
        assert!(
            later.is_earlier(JobId::new(4)) && later.is_earlier(JobId::new(5)),
            "the file lags behind, safely"
        );
        // The next group shows that the one before is done.
        claims.claim(JobId::new(10)).unwrap();
        assert_eq!(next(&told).ids, [JobId::new(10)]);
    }

    #[test]
    fn a_claim_that_cannot_be_written_is_told_in_words() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("shepherd.claims.next")).unwrap();
        let (sender, told) = channel();
        let claims = Claims::start(dir.path(), move |claimed| drop(sender.send(claimed))).unwrap();
        claims.claim(JobId::new(3)).unwrap();
        let Claimed { ids, outcome } = next(&told);
        let note = outcome.unwrap_err();
        assert_eq!(ids, [JobId::new(3)]);
        assert!(note.starts_with("nothing was started: cannot note in /"), "{note}");
        assert!(note.ends_with("shepherd.claims that the job starts: Is a directory"), "{note}");
    }
}
