//! Giving out resources: strict order of priority, a blocked head blocks.

use std::sync::Arc;

use super::{Engine, events};
use crate::job::{JobId, State};
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

    fn grant(&mut self, id: JobId, resources: crate::resource::ResourceSet) {
        self.alloc.remove(id);
        self.put(id, "R", resources.to_json());
        let summary = resources.summary();
        if let Some(record) = self.jobs.get_mut(&id) {
            record.job.resources = Some(Arc::new(resources));
        }
        self.post(id, events::alloc(self.now, &summary));
    }
}
