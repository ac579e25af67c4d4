//! A bare number is not a `Priority`.
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
