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

/// How often resources are chosen at the most, so that a look costs little on any cluster.
const TRIES: usize = 64;

/// The start of the next jobs, UNIX seconds, as far as it is known. Behind a job without time limit, or
/// one that waits for such a job, nothing is.
pub(crate) fn estimate<'a>(
    pool: &Pool,
    now: f64,
    running: Vec<Running<'_>>,
    waiting: impl Iterator<Item = (JobId, &'a Jobspec)>,
) -> Vec<(JobId, f64)> {
    let ending = |running: Running<'_>| Some((running.until?.max(now), running.resources.clone()));
    let mut ends = Ends(running.into_iter().filter_map(ending).collect());
    ends.0.sort_by(|a, b| b.0.total_cmp(&a.0));
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
            let Some((end, resources)) = ends.0.pop().filter(|_| tries < TRIES) else {
                return starts;
            };
            at = end;
            free.union_with(&resources);
        };
        starts.push((id, at));
        let duration = jobspec.duration();
        if duration <= 0.0 {
            return starts;
        }
        free.subtract(&resources);
        ends.add(at + duration, resources);
    }
    starts
}

/// What becomes free when, the last first.
struct Ends(Vec<(f64, ResourceSet)>);

impl Ends {
    fn add(&mut self, at: f64, resources: ResourceSet) {
        let place = self.0.partition_point(|(end, _)| *end > at);
        self.0.insert(place, (at, resources));
    }
}
