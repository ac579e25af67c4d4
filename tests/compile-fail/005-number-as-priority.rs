//! A bare number is no priority.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> u32 {
        job.urgency().value().into()
    }
}

fn main() {}
