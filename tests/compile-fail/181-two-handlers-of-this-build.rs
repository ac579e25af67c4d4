//! Handlers of some builds, which meet in this one.
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
