//! An error in a handler's body is reported where it is.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site {
    last: u64,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&mut self, job: &Job) {
        self.last = job.id();
    }
}

fn main() {}
