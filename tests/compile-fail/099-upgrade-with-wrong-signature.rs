//! An upgrade takes the stored version and value, and returns the data.
use jobtap_core::prelude::*;

#[data(version = 2, upgrade = from_minutes)]
#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

fn from_minutes(old: u64) -> Usage {
    Usage(old * 60)
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", data = Usage)]
impl Site {
    #[on("job.new")]
    fn new_job(&self, usage: Data<'_, Usage>) {
        let _ = usage.get();
    }
}

fn main() {}
