//! The manager waits for a plugin to be built, so `#[init]` isn't `async`.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    async fn new(_conf: InstanceConf<serde_json::Value>) -> Self {
        Site
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
