//! Giving out resources: the scheduler decides, the engine does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::jobs::Jobs;
use super::kept::AllKept;
use super::{Effects, Engine, Level, events};
use crate::host::JobFlag;
use crate::job::{JobId, State, Timestamp};
use crate::resource::ResourceSet;
use crate::sched::{Answer, Decision, Running, Turn};

impl Engine {
    /// Lets the schedulers decide what starts; says whether anything was decided.
    pub(super) fn schedule(&mut self) -> bool {
        let mut progress = false;
        for lane in self.lanes.in_turn() {
            progress |= self.schedule_lane(lane);
        }
        for text in self.lanes.news() {
            self.log(Level::Error, text);
        }
        progress
    }

    fn schedule_lane(&mut self, lane: usize) -> bool {
        let Some(lane) = self.lanes.get_mut(lane) else {
            return false;
        };
        let jobs = &self.jobs;
        let waiting = |id: JobId| {
            let record = jobs.get(&id).filter(|record| record.job.state == State::Sched)?;
            Some(&record.job.jobspec)
        };
        let (holding, kept, now) = (&self.holding, &self.kept, self.now.as_secs());
        let running = || running(jobs, holding, kept, now);
        let pool = &mut self.pool;
        let mut decided = Vec::new();
        lane.with_scheduler(|scheduler, queue| {
            let (jobspec, running, decided) = (&waiting, &running, &mut decided);
            scheduler.turn(&mut Turn { now, pool, queue, jobspec, running, decided });
        });
        let progress = !decided.is_empty();
        for (id, decision) in decided {
            self.lanes.leave(id);
            match decision {
                Decision::Granted(resources) => self.grant(id, resources),
                Decision::Never(note) => self.raise_fatal(id, "alloc", &note),
            }
        }
        progress
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
        self.lanes.leave(id);
        self.put(id, "R", resources.to_json());
        self.holding.insert(id);
        let summary = resources.summary();
        if let Some(record) = self.jobs.get_mut(&id) {
            *record.job.resources = Some(Arc::new(resources));
        }
        self.post(id, events::alloc(self.now, &summary));
    }

    /// A plugin gives the job its resources, past the scheduler: they are its own business, and not
    /// taken from the pool.
    pub(super) fn force_resources(&mut self, id: JobId, resources: ResourceSet) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let refuse = match (record.job.state, &*record.job.resources) {
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
            *record.job.resources = Some(Arc::new(resources));
            if !record.bypass && !record.is_queued("set-flags") {
                let flag = JobFlag::AllocBypass.name();
                self.post(id, events::set_flags(self.now, flag));
            }
        }
    }
}

/// What is in use, and until when.
pub(super) fn running<'a>(
    jobs: &'a Jobs,
    holding: &BTreeSet<JobId>,
    kept: &'a AllKept,
    now: f64,
) -> Vec<Running<'a>> {
    let held = holding.iter().filter_map(|id| jobs.get(id)?.held());
    let held = held.map(|resources| Running { resources, until: resources.expiration() });
    // Nobody knows when it comes back, but soon.
    let kept = kept.iter().map(|(_, _, resources)| Running { resources, until: Some(now) });
    held.chain(kept).collect()
}
