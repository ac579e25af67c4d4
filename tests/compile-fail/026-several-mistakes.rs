//! All mistakes of a plugin are reported at once.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "si te")]
impl Site {
    #[on("job.newt")]
    fn new_job(&self, _job: &Job) {}

    #[on]
    fn nothing(&self) {}

    #[on("job.validate")]
    fn validate(self) {}
}

fn main() {}
