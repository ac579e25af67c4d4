//! A service is about no job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit")]
    fn limit(&self, job: &Job) -> u32 {
        u32::from(job.urgency().value())
    }
}

fn main() {}
