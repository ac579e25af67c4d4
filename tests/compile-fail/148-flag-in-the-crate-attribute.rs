//! `#[jobtap]` names the path of the SDK only.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
#[jobtap(name = "other")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
