//! A job is lent for the call.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.state.run")]
    fn run(&self, job: &'static Job) {
        let _ = job;
    }
}

fn main() {}
