//! The data type must be the one that the plugin declares.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job, usage: Data<'_, Usage>) {
        let _ = usage.get();
    }
}

fn main() {}
