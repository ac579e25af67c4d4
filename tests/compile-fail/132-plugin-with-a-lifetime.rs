//! A plugin lives as long as the manager, so it borrows nothing.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site<'a>(&'a str);

#[jobtap_plugin(name = "site")]
impl Site<'_> {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {
        let _ = self.0;
    }
}

fn main() {}
