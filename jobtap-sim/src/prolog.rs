//! A plugin whose prolog and epilog are processes on the job's nodes, if the job asks for them.

use jobtap_core::prelude::*;

/// The attribute by which a job asks for them.
const ASKED: &str = "on-nodes";

/// Runs the processes.
#[derive(Default)]
pub(crate) struct OnNodes;

/// Runs a process on each of these ranks but the manager's own, one after the other.
async fn on_each(
    job: &JobInfo,
    what: &str,
    ranks: &Idset,
    remote: &Remote<OnNodes>,
) -> Result<(), PrologFailed> {
    if job.jobspec.attribute(ASKED).is_none() {
        return Ok(());
    }
    for rank in ranks.iter().filter(|rank| *rank != 0) {
        let process = Process::new(what).arg(job.id.as_u64().to_string()).on_rank(rank);
        let end = remote.run_process(process).await;
        let end = end.map_err(|error| PrologFailed::new(error.to_string()))?;
        if !end.status.is_success() {
            return Err(PrologFailed::new(format!("{what} on rank {rank}: {:?}", end.status)));
        }
    }
    Ok(())
}

#[jobtap_plugin(name = "on-nodes")]
impl OnNodes {
    #[on("job.state.run", on_restart = "rerun")]
    async fn prolog(
        job: JobInfo,
        r: ResourceSet,
        remote: Remote<Self>,
    ) -> Result<(), PrologFailed> {
        on_each(&job, "prolog", &r.ranks(), &remote).await
    }
}
