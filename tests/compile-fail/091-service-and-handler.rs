//! One function has one role.
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
