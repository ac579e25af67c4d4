//! Settings are read from configuration, so their type is `Deserialize`.
use jobtap_core::prelude::*;

struct Settings;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(_settings: Conf<Settings>) -> Self {
        Site
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
