//! The name of a service is a string literal.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service(limit)]
    fn limit(&self) -> u32 {
        1
    }
}

fn main() {}
