//! Only a wildcard has to ask for which topic it is called.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, topic: JobTopic<'_>) {
        let _ = topic;
    }
}

fn main() {}
