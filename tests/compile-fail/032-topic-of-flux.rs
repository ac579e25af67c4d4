//! A topic that Flux has, and what serves instead.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.create")]
    fn create(&self, job: &Job) {
        let _ = job.id();
    }
}

fn main() {}
