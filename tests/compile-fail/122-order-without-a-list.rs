//! `before` and `after` take lists.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", before = "limits")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
