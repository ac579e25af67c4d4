use jobtap_core::prelude::*;

#[derive(Default)]
struct Gate;

/// Called by the plugin, and by others that this crate may have.
fn store(job: &Job, context: &Cx<'_, JobStateRun>) -> Result<(), CallError> {
    context.guest_put(job, "tools.gate.place", "north")
}

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        let id = job.id;
        remote.after(5.0, move |_, later| {
            if let Ok(job) = later.active_job(id) {
                let _ = later.guest_put(job, "tools.gate.open", true);
            }
        });
        Ok(())
    }

    #[on("job.state.run")]
    fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        Ok(store(job, &cx)?)
    }
}
