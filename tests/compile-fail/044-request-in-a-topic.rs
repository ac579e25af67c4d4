//! Clients send requests to services, not to topics.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, request: Request<u32>) {
        let _ = request.into_inner();
    }
}

fn main() {}
