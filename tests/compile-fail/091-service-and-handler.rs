//! A function is a service or a handler, not both.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit")]
    #[on("job.new")]
    fn limit(&self) {}
}

fn main() {}
