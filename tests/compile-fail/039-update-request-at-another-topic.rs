//! A user's request for a change has a topic of its own.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.update")]
    fn updated(&self, request: &UpdateRequest) {
        let _ = &request.key;
    }
}

fn main() {}
