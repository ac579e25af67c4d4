//! Priorities are requested again after each restart.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority", on_restart = "fail")]
    async fn priority(_job: JobInfo) -> Priority {
        Priority::UNCHANGED
    }
}

fn main() {}
