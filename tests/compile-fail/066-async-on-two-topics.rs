//! Each topic waits in its own way, so an `async` handler has one topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", "job.state.cleanup")]
    async fn scratch(job: JobInfo) {
        let _ = job.id;
    }
}

fn main() {}
