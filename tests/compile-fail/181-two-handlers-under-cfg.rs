//! Handlers for different builds must not both be compiled.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[cfg(unix)]
    #[on("job.new")]
    fn count(&self, _job: &Job) {}

    #[cfg(not(windows))]
    #[on("job.new")]
    fn watch(&self, _job: &Job) {}
}

fn main() {}
