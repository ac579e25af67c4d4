//! A time to wait is a number of seconds or a duration.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, remote: Remote<Self>) {
        remote.after("5m", |_, cx| cx.reprioritize_all());
    }
}

fn main() {}
