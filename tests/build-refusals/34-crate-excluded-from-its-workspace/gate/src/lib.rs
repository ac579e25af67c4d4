use jobtap_core::prelude::*;

#[derive(Default)]
struct Gate;

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("job.validate")]
    async fn validate(job: JobInfo) -> Result<(), Reject> {
        let _ = job;
        Ok(())
    }
}
