//! The names of a plugin's services are unique.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit")]
    fn get(&self) -> u32 {
        1
    }

    #[service("limit")]
    fn set(&mut self) {}
}

fn main() {}
