//! A response is written as JSON.
use jobtap_core::prelude::*;

struct Limit;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit")]
    fn limit(&self) -> Limit {
        Limit
    }
}

fn main() {}
