//! A job is borrowed for the callback; its id can be stored.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, remote: Remote<Self>) {
        remote.run(move |_, cx| {
            cx.log(Level::Info, format!("{} is new", job.id()));
        });
    }
}

fn main() {}
