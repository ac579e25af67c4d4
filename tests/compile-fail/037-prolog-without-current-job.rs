//! A closure that runs later has no current job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, remote: Remote<Self>) {
        remote.run(|_, cx| {
            let _token = cx.prolog_start("scratch");
        });
    }
}

fn main() {}
