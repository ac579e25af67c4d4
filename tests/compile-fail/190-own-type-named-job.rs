//! A struct of the author's own hides the SDK's of the same name.
use jobtap_core::prelude::*;

pub struct Job {
    pub cores: u32,
}

#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.state.run")]
    fn run(&self, job: &Job) {
        let _ = job;
    }
}

fn main() {}
