//! Jobs that the manager has handed over ahead of their turn: each is begun, without a further request, when nothing is
//! left of the job before it.
//!
//! They are only in memory, and forgotten with the manager that has handed them over: what is not begun is claimed only
//! ahead, so that any shepherd can start it later. A job that is begun is like any other one. Its manager, or another
//! one, learns of it by [`ExecEvent::Begun`] or by the list of the shepherd's jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;

use super::job::Attach;
use super::state::Shepherd;
use crate::exec::protocol::ShepherdMessage;
use crate::exec::{Seen, StartJob};

/// The jobs, by the job before each.
#[derive(Default)]
pub struct Ahead {
    next: HashMap<JobId, Box<StartJob>>,
    /// The job before each of them.
    before: HashMap<JobId, JobId>,
    /// Whether there are any, for the task that writes to the manager.
    any: Arc<AtomicBool>,
}

impl Ahead {
    /// Adds a job that comes after this one.
    pub fn add(&mut self, before: JobId, start: Box<StartJob>) {
        self.before.insert(start.id, before);
        self.next.insert(before, start);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Tells others whether there are any.
    pub(super) fn any(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.any)
    }

    /// Whether a job is among them.
    pub fn has(&self, id: JobId) -> bool {
        self.before.contains_key(&id)
    }

    /// The job to begin after this one.
    pub fn after(&self, id: JobId) -> Option<JobId> {
        self.next.get(&id).map(|start| start.id)
    }

    /// Takes the job to begin after this one.
    pub fn take_after(&mut self, id: JobId) -> Option<Box<StartJob>> {
        let start = self.next.remove(&id)?;
        self.before.remove(&start.id);
        self.any.store(!self.next.is_empty(), Ordering::Relaxed);
        Some(start)
    }

    /// Forgets a job. The one after it comes after the one before it. Returns whether the job was here.
    pub fn forget(&mut self, id: JobId) -> bool {
        let Some(before) = self.before.remove(&id) else { return false };
        self.next.remove(&before);
        self.any.store(!self.next.is_empty(), Ordering::Relaxed);
        if let Some(mut start) = self.next.remove(&id) {
            // A manager that is restarted finds the job by the one before it.
            start.after = Some(before);
            self.add(before, start);
        }
        true
    }

    /// Forgets all jobs, and returns them.
    pub fn clear(&mut self) -> impl Iterator<Item = JobId> + use<> {
        self.next.clear();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.before).into_keys()
    }
}

impl Shepherd {
    /// Serves a request to start a job after another one. If nothing is left of that one, the job is begun at once; if
    /// it isn't known to this manager, the manager will ask for the job again.
    pub(super) fn start_after(&mut self, before: JobId, start: Box<StartJob>) {
        match self.jobs.get(&before) {
            // After another shepherd has died. The manager may have missed the end of that job, and with it what is said
            // about this one.
            Some(job) if !job.journal.is_attached() => {}
            Some(job) if job.has_ended() => {
                self.say(ExecEvent::Begun { id: start.id });
                self.start_or_attach(*start);
            }
            None if !self.ahead.has(before) => {}
            _ => {
                self.claims.claim_ahead(start.id);
                self.ahead.add(before, start);
            }
        }
    }

    /// Forgets the jobs that were handed over and have not begun.
    pub(super) fn forget_ahead(&mut self) {
        self.ahead.clear().for_each(|id| self.claims.forget(id));
    }

    /// Begins the job that waits for the end of this one.
    pub(super) fn begin_after(&mut self, id: JobId) {
        if let Some(start) = self.ahead.take_after(id) {
            self.start_or_attach(*start);
        }
    }

    /// Gives a job back to the manager, or says that it is begun.
    pub(super) fn recall(&mut self, id: JobId) {
        let outbox = self.outbox();
        let Some(job) = self.jobs.get_mut(&id) else {
            if self.ahead.forget(id) {
                self.claims.forget(id);
            }
            return self.say(ExecEvent::Recalled { id });
        };
        let is_attached = job.journal.is_attached();
        if let Some(outbox) = &outbox {
            let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Begun { id }));
        }
        if !is_attached {
            job.attach(outbox, Attach::Again, Seen::default());
        }
    }

    fn say(&self, event: ExecEvent) {
        if let Some(outbox) = self.outbox() {
            let _ = outbox.send(ShepherdMessage::Event(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> Box<StartJob> {
        Box::new(StartJob::new(JobId::new(number)))
    }

    #[test]
    fn who_comes_after_a_job_that_is_forgotten_comes_after_the_one_before_it() {
        let id = JobId::new;
        let mut ahead = Ahead::default();
        for number in 2..=4 {
            ahead.add(id(number - 1), job(number));
        }
        assert!(ahead.forget(id(3)) && !ahead.forget(id(3)));
        assert!(ahead.has(id(2)) && !ahead.has(id(3)) && ahead.has(id(4)));
        assert_eq!((ahead.after(id(1)), ahead.after(id(2))), (Some(id(2)), Some(id(4))));
        assert_eq!(ahead.take_after(id(1)), Some(job(2)));
        assert_eq!(ahead.take_after(id(1)), None);
        assert!(ahead.forget(id(4)));
        assert!(ahead.next.is_empty() && ahead.before.is_empty());
    }
}
