//! A closure that runs later has no current job to fail.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, remote: Remote<Self>) {
        remote.run(|_site, cx| {
            let _ = cx.fail("site", "too late");
        });
    }
}

fn main() {}
