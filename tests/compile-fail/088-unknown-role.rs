//! The roles are owner and guest.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit", role = "admin")]
    fn limit(&self) -> u32 {
        1
    }
}

fn main() {}
