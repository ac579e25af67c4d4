//! The setting is for `async` handlers.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", timeout = "5m")]
    fn run(&self, _job: &Job) {}
}

fn main() {}
