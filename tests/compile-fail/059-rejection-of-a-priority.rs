//! An accepted job can't be rejected for lack of a priority.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, _job: &Job) -> Result<Priority, Reject> {
        Ok(Priority::UNCHANGED)
    }
}

fn main() {}
