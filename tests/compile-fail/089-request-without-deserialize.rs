//! A request is read from JSON.
use jobtap_core::prelude::*;

struct SetLimit {
    jobs: u32,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("set")]
    fn set(&mut self, request: Request<SetLimit>) {
        let _ = request.jobs;
    }
}

fn main() {}
