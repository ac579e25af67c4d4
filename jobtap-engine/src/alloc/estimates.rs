//! When pending jobs will probably start: Flux's annotation `sched.t_estimate`.
//!
//! An estimate is made when a client asks for it, and reused for a second, since a listing asks for one job after the
//! other.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Allocation;
use super::start_times::{Ends, estimate};
use crate::job::JobId;
use crate::jobs::Jobs;

/// How long an estimate is reused, in seconds.
const PERIOD: f64 = 1.0;

/// The estimated starts of the next jobs of all queues, in UNIX seconds.
type Starts = Rc<FxHashMap<JobId, f64>>;

/// The last estimate, with the time at which it was made.
#[derive(Debug, Default)]
pub(super) struct Estimates(RefCell<Option<(f64, Starts)>>);

impl Allocation {
    /// When a job will probably start; `None` if that is unknown, or the job does not wait for
    /// resources.
    pub(crate) fn start_estimate(&self, jobs: &Jobs, now: f64, id: JobId) -> Option<f64> {
        let priority = jobs.get(id)?.allocation.queued?.get();
        if !self.alloc_queues.pending().any(|queue| queue.contains(id, priority)) {
            return None;
        }
        let known = self.estimates.0.borrow().clone();
        let starts = match known {
            Some((made, starts)) if now - made < PERIOD => starts,
            _ => {
                let starts = Rc::new(self.estimate_starts(jobs, now));
                *self.estimates.0.borrow_mut() = Some((now, Rc::clone(&starts)));
                starts
            }
        };
        starts.get(&id).copied()
    }

    fn estimate_starts(&self, jobs: &Jobs, now: f64) -> FxHashMap<JobId, f64> {
        let ends = Ends::new(now, self.in_use(jobs, now));
        let mut all = FxHashMap::default();
        for queue in self.alloc_queues.pending().filter(|queue| !queue.is_empty()) {
            let spec = |id: JobId| Some((id, &jobs.get(id)?.job.kept().jobspec));
            all.extend(estimate(&self.pool, now, &ends, queue.iter().filter_map(spec)));
        }
        all
    }
}
