//! A new job has no previous state.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, prev: PrevState) {
        let _ = prev.0;
    }
}

fn main() {}
