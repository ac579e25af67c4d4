//! A running job can't be rejected.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, _job: &Job) -> Result<(), Reject> {
        Err(Reject::new("too late"))
    }
}

fn main() {}
