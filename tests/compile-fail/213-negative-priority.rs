//! A priority is a `u32`: 0 is the lowest, and holds the job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(-1)
    }
}

fn main() {}
