//! A prolog succeeds or fails; it returns no priority.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(_job: JobInfo) -> Priority {
        Priority::UNCHANGED
    }
}

fn main() {}
