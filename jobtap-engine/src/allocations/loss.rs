//! What becomes of jobs whose nodes are gone: they end, and those whose table says so are submitted again.

use crate::allocation::OnLoss;
use crate::core::Core;
use crate::dispatch::resubmission::{self, allows_requeue, attempts, is_interactive};
use crate::job::{JobId, State};
use crate::resource::Idset;
use crate::submissions::{Failed, Requeue};

/// The number of times that a job is submitted again before it is held: one that runs longer than any allocation would lose
/// its nodes forever.
const ATTEMPTS: u64 = 3;

/// Ends the jobs that run on nodes that are lost.
pub(crate) fn end_jobs_on(core: &mut Core, lost: &Idset) {
    let ending = core.jobs.active_where(|record| {
        record.job.state() == State::Run
            && record.job.resources().is_some_and(|resources| resources.ranks().intersects(lost))
    });
    for id in ending {
        end_job(core, id, lost);
    }
}

/// Ends the jobs that run where no node is any more: those that the executor had begun ahead of their turn when their
/// allocation ended.
pub(super) fn end_jobs_without_nodes(core: &mut Core) {
    let gone = core.allocations.tables.ranks().difference(&core.allocations.joined());
    end_jobs_on(core, &gone);
}

fn end_job(core: &mut Core, id: JobId, lost: &Idset) {
    let Core { turn, jobs, alloc, allocations, submissions, .. } = core;
    if matches!(submissions.requeues.get(&id), Some(Requeue::Failed(_) | Requeue::Both(..))) {
        // It ends as soon as it is known whether it has a successor.
        return;
    }
    let Some(record) = jobs.get(id) else { return };
    let Some(resources) = record.job.resources() else { return };
    let theirs = resources.ranks().intersection(lost);
    // By the name that the job's nodes had when it got them.
    let hosts = resources.with_ranks(&theirs).nodelist();
    let why = match alloc.nodes.hosts(&theirs) == hosts.to_string() {
        true => format!("node failure on {}", alloc.nodes.named(&theirs)),
        false => format!("node failure on {hosts}"),
    };
    let on_loss = theirs.first().and_then(|rank| allocations.tables.of_rank(rank));
    let is_requeued = on_loss.is_some_and(|table| table.on_loss == OnLoss::Requeue)
        && allows_requeue(record)
        && !is_interactive(record.job.jobspec().value())
        && !record.execution.resubmitted;
    if !is_requeued {
        return jobs.raise_fatal(turn, id, "node-failure", &why);
    }
    let held = attempts(record) > ATTEMPTS;
    let failed = Failed { kind: "node-failure", why, held, description: None };
    resubmission::after_failure(turn, jobs, submissions, id, failed);
}
