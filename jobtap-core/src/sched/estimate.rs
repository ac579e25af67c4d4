//! When the next jobs will probably start, to be shown to people. The jobs that run end at their time
//! limits, and those that wait are started in strict order: a scheduler that backfills, and jobs that
//! end earlier, are only faster.

use super::pool::Pool;
use super::turn::Running;
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// For how many jobs; as many as Flux's simple scheduler looks at.
const DEPTH: usize = 8;

/// How often resources are chosen, and how many ends of jobs are looked at, for one queue: so that a look
/// costs the same on any cluster.
const TRIES: usize = 64;
const STEPS: usize = 1024;

/// What runs, the first to end in front. What nobody knows the end of isn't there.
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

/// The start of the next jobs, UNIX seconds, as far as it is known. Behind a job without time limit, or
/// one that waits for such a job, nothing is.
pub(crate) fn estimate<'a>(
    pool: &Pool,
    now: f64,
    running: &Ends<'_>,
    waiting: impl Iterator<Item = (JobId, &'a Jobspec)>,
) -> Vec<(JobId, f64)> {
    let (mut running, mut started) = (running.0.iter().peekable(), Started::default());
    let (mut at, mut free, mut tries) = (now, pool.free().clone(), 0);
    let mut starts = Vec::new();
    for (id, jobspec) in waiting.take(DEPTH) {
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

/// The few jobs that the simulation has started.
#[derive(Default)]
struct Started(Vec<(f64, ResourceSet)>);

impl Started {
    /// The one that ends first, if it ends before a time.
    fn pop_before(&mut self, time: Option<f64>) -> Option<(f64, ResourceSet)> {
        let ends = self.0.iter().enumerate().map(|(index, (end, _))| (*end, index));
        let (end, index) = ends.min_by(|a, b| a.0.total_cmp(&b.0))?;
        time.is_none_or(|time| end < time).then(|| self.0.swap_remove(index))
    }
}
