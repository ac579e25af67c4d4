use jobtap_core::prelude::*;

#[derive(Default)]
struct Gate;

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        cx.dependency_add("gate")?;
        Ok(())
    }

    #[on("job.dependency.gate")]
    fn dependency(&self) {}

    #[on("job.state.run", "job.state.cleanup")]
    fn run(&self) {}

    #[service("open", role = "guest")]
    fn open(&self) {}
}
