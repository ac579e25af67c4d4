//! `when` is a function of the plugin and a job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

impl Site {
    fn wants(job: &Job) -> bool {
        job.jobspec().attribute("data").is_some()
    }
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.depend", when = Self::wants)]
    async fn depend(remote: Remote<Self>) -> Result<(), Reject> {
        Ok(remote.sleep(5.0).await?)
    }
}

fn main() {}
