//! The estimated start times of pending jobs, for users.
//!
//! The simulation lets jobs run until their time limits and starts pending jobs in strict order. Backfill
//! and jobs that finish early can only make the real start earlier.

use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;
use crate::sched::{Pool, Running};

/// The maximum number of jobs with an estimate, as in Flux's simple scheduler.
const DEPTH: usize = 8;

/// The maximum number of searches for resources for one queue, so that an estimate costs the same on any
/// cluster.
const TRIES: usize = 64;

/// The maximum number of job ends that are considered for one queue, for the same reason.
const STEPS: usize = 1024;

/// The running jobs by their expected ends. Jobs without a time limit are left out.
pub(crate) struct Ends<'a>(Vec<(f64, &'a ResourceSet)>);

impl<'a> Ends<'a> {
    pub(crate) fn new(now: f64, running: Vec<Running<'a>>) -> Self {
        let ending = |running: Running<'a>| Some((running.until?.max(now), running.resources));
        let mut ends: Vec<_> = running.into_iter().filter_map(ending).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.truncate(STEPS);
        Self(ends)
    }
}

/// Estimates the start times of the next jobs, in UNIX seconds. There are no estimates for jobs after a
/// pending job without a time limit, or for jobs that need the resources of a running job without one.
pub(crate) fn estimate<'a>(
    pool: &Pool,
    now: f64,
    running: &Ends<'_>,
    pending: impl Iterator<Item = (JobId, &'a Jobspec)>,
) -> Vec<(JobId, f64)> {
    let (mut running, mut started) = (running.0.iter().peekable(), Started::default());
    let (mut at, mut free, mut tries) = (now, pool.free().clone(), 0);
    let mut starts = Vec::new();
    for (id, jobspec) in pending.take(DEPTH) {
        let resources = loop {
            if free.ncores() as u64 >= jobspec.counts().ncores() {
                tries += 1;
                if let Some(resources) = pool.choose_at(&free, jobspec, at) {
                    break resources;
                }
            }
            if tries >= TRIES {
                return starts;
            }
            let runs_until = running.peek().map(|(end, _)| *end);
            if let Some((end, resources)) = started.pop_before(runs_until) {
                at = end;
                free.union_with(&resources);
            } else if let Some((end, resources)) = running.next() {
                at = *end;
                free.union_with(resources);
            } else {
                return starts;
            }
        };
        starts.push((id, at));
        let duration = jobspec.duration();
        if duration <= 0.0 {
            return starts;
        }
        free.subtract(&resources);
        started.0.push((at + duration, resources));
    }
    starts
}

/// The jobs that the simulation has started, with their ends.
#[derive(Default)]
struct Started(Vec<(f64, ResourceSet)>);

impl Started {
    /// Removes the job that ends first, if it ends before `time`.
    fn pop_before(&mut self, time: Option<f64>) -> Option<(f64, ResourceSet)> {
        let ends = self.0.iter().enumerate().map(|(index, (end, _))| (*end, index));
        let (end, index) = ends.min_by(|a, b| a.0.total_cmp(&b.0))?;
        time.is_none_or(|time| end < time).then(|| self.0.swap_remove(index))
    }
}
