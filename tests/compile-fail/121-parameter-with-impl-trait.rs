//! A handler has no `impl Trait` parameters.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: impl std::fmt::Debug) {
        let _ = job;
    }
}

fn main() {}
