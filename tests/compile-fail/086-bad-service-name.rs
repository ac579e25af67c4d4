//! The name of a service has letters, digits, `-` and `_` only.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("set limit")]
    fn set(&mut self) {}
}

fn main() {}
