//! `conf.update` is about no job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("conf.update")]
    fn conf(&mut self, job: &Job) {
        let _ = job.id();
    }
}

fn main() {}
