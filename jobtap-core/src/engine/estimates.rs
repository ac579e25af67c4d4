//! When jobs will probably start: Flux's annotation `sched.t_estimate`, looked for when somebody wants
//! to see it, and not more often than once in a second.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Engine;
use super::alloc::running;
use crate::job::JobId;
use crate::sched::{Ends, estimate};

/// For how long an estimate is good enough, in seconds.
const PERIOD: f64 = 1.0;

/// The starts of the next jobs of all queues, UNIX seconds.
type Starts = Rc<FxHashMap<JobId, f64>>;

/// The last estimate, and when it was made.
#[derive(Debug, Default)]
pub(super) struct Estimates(RefCell<Option<(f64, Starts)>>);

impl Engine {
    /// When a job will probably start, if it is known and the job still waits for that.
    pub(super) fn start_estimate(&self, id: JobId) -> Option<f64> {
        if !self.lanes.waiting().any(|queue| queue.contains(id)) {
            return None;
        }
        let now = self.now.as_secs();
        let known = self.estimates.0.borrow().clone();
        let starts = match known {
            Some((made, starts)) if now - made < PERIOD => starts,
            _ => {
                let starts = Rc::new(self.look_ahead(now));
                *self.estimates.0.borrow_mut() = Some((now, Rc::clone(&starts)));
                starts
            }
        };
        starts.get(&id).copied()
    }

    fn look_ahead(&self, now: f64) -> FxHashMap<JobId, f64> {
        let ends = Ends::new(now, running(&self.jobs, &self.holding, &self.kept, now));
        let mut all = FxHashMap::default();
        for queue in self.lanes.waiting().filter(|queue| !queue.is_empty()) {
            let spec = |id: JobId| Some((id, &self.jobs.get(&id)?.job.jobspec));
            all.extend(estimate(&self.pool, now, &ends, queue.iter().filter_map(spec)));
        }
        all
    }
}
