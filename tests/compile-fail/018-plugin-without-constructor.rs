//! A plugin needs `#[init]` or `Default`.
use jobtap_core::prelude::*;

struct Site {
    _limit: u32,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
