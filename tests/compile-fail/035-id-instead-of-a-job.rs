//! A call takes a job that was looked up, not an id.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, remote: Remote<Self>, job: &Job) {
        let id = job.id();
        remote.run(move |_, cx| {
            cx.unsubscribe(id);
        });
    }
}

fn main() {}
