//! A conversion that is unwrapped would be a panic of the plugin for a number out of range.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Priority {
        let waits: i64 = 1000 - job.urgency().value() as i64;
        Priority::new(waits.try_into().unwrap())
    }
}

fn main() {}
