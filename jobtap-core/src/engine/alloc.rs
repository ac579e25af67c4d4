//! Giving out resources: strict order of priority, a blocked head blocks.

use std::sync::Arc;

use super::{Effects, Engine, Level, events};
use crate::job::{JobId, State, Timestamp};
use crate::plugin::JobFlag;
use crate::resource::ResourceSet;
use crate::sched::Answer;

impl Engine {
    /// Allocates the first job of the queue, if it can be; says whether it did something.
    pub(super) fn schedule(&mut self) -> bool {
        if self.scheduling.stopped {
            return false;
        }
        let Some(id) = self.alloc.first() else {
            return false;
        };
        let Some(record) = self.jobs.get(&id) else {
            self.alloc.remove(id);
            return true;
        };
        if record.job.state != State::Sched {
            self.alloc.remove(id);
            return true;
        }
        let asked = Some((id, self.pool.changes()));
        if self.blocked == asked {
            // Nothing came back since it was asked for in vain: no need to search all nodes again.
            return false;
        }
        let now = self.now.as_secs();
        match self.pool.allocate(&record.job.jobspec, now) {
            Answer::Busy => {
                self.blocked = asked;
                false
            }
            Answer::Never(note) => {
                self.alloc.remove(id);
                self.raise_fatal(id, "alloc", &note);
                true
            }
            Answer::Granted(resources) => {
                self.grant(id, resources);
                true
            }
        }
    }

    /// Gives a waiting job its resources out of turn, also while nothing is scheduled; says whether
    /// it got them. For tests that are their own scheduler.
    pub fn allocate_now(&mut self, now: Timestamp, id: JobId) -> (bool, Effects) {
        self.now = now;
        let waiting = self.jobs.get(&id).filter(|record| record.job.state == State::Sched);
        let answer = waiting.map(|record| self.pool.allocate(&record.job.jobspec, now.as_secs()));
        let granted = match answer {
            Some(Answer::Granted(resources)) => {
                self.grant(id, resources);
                true
            }
            _ => false,
        };
        self.settle();
        (granted, std::mem::take(&mut self.effects))
    }

    fn grant(&mut self, id: JobId, resources: ResourceSet) {
        self.alloc.remove(id);
        self.put(id, "R", resources.to_json());
        let summary = resources.summary();
        if let Some(record) = self.jobs.get_mut(&id) {
            record.job.resources = Some(Arc::new(resources));
        }
        self.post(id, events::alloc(self.now, &summary));
    }

    /// A plugin gives the job its resources, past the scheduler: they are its own business, and not
    /// taken from the pool.
    pub(super) fn force_resources(&mut self, id: JobId, resources: ResourceSet) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let refuse = match (record.job.state, &record.job.resources) {
            (State::Sched, None) => None,
            // Asked again after a restart.
            (State::Sched, Some(present)) if **present == resources => return,
            (State::Sched, Some(_)) => Some("R is already set"),
            _ => Some("R may only be set in SCHED state"),
        };
        if let Some(text) = refuse {
            return self.log(Level::Error, format!("job.state.sched: {id}: {text}"));
        }
        self.put(id, "R", resources.to_json());
        if let Some(record) = self.jobs.get_mut(&id) {
            record.job.resources = Some(Arc::new(resources));
            if !record.bypass && !record.is_queued("set-flags") {
                let flag = JobFlag::AllocBypass.name();
                self.post(id, events::set_flags(self.now, flag));
            }
        }
    }
}
