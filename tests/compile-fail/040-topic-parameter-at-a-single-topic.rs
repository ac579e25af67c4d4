//! Only a handler of a wildcard needs to ask for its topic.
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
