//! An `async` handler for a priority returns one.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    async fn priority(job: JobInfo) {
        let _ = job.id;
    }
}

fn main() {}
