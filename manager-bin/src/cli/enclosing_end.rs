//! How long a manager that is a job has: until the end of that job, which its user may move.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;

use super::enclosing::Enclosing;

/// After this time the enclosing manager is looked for again: one that restarts is back before long.
const PAUSE: Duration = Duration::from_secs(5);

/// The end of a manager's resources.
pub(super) struct End(Option<watch::Receiver<f64>>);

impl End {
    /// One that doesn't move.
    pub(super) const fn fixed() -> Self {
        Self(None)
    }

    /// That of a job (UNIX seconds, 0 for none), from what is known of it on.
    pub(super) fn of(job: Enclosing, known: f64) -> Self {
        let (told, ends) = watch::channel(known);
        tokio::spawn(async move {
            while job.tell_ends(&told).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self(Some(ends))
    }

    /// Waits until it has moved; gives the new one. Nothing is lost when nobody waits.
    pub(super) async fn moved(&mut self) -> f64 {
        if let Some(ends) = &mut self.0
            && ends.changed().await.is_ok()
        {
            return *ends.borrow_and_update();
        }
        pending().await
    }

    /// What was heard of last.
    pub(super) fn last(&self) -> Option<f64> {
        self.0.as_ref().map(|ends| *ends.borrow())
    }
}
