//! The plugin's own table comes with `#[init]` and `conf.update`.
use jobtap_core::prelude::*;

#[derive(Deserialize)]
struct Settings {
    limit: u64,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, conf: Conf<Settings>) {
        let _ = conf.limit;
    }
}

fn main() {}
