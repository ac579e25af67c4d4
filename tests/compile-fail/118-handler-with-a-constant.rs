//! Nobody could say what `N` is.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job<const N: usize>(&self, _job: &Job) {}
}

fn main() {}
