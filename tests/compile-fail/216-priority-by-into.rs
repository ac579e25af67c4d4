//! `into` may make anything, so a priority says which number it is.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(job.urgency().value().into())
    }
}

fn main() {}
