//! A struct becomes a topic by `#[topic]`.
use jobtap_core::prelude::*;

struct ShareOf;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self) {}
}

fn main() {}
