//! A role is a setting with a key.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit", guest)]
    fn limit(&self) -> u32 {
        4
    }
}

fn main() {}
