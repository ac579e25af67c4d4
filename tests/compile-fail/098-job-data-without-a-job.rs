//! Data on a job needs a job.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", data = Usage)]
impl Site {
    #[on("conf.update")]
    fn conf(&mut self, usage: Data<'_, Usage>) {
        let _ = usage.get();
    }
}

fn main() {}
