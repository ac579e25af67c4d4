//! The plugin doesn't declare data on the instance.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Totals(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, totals: InstanceData<'_, Totals>) {
        let _ = totals.get();
    }
}

fn main() {}
