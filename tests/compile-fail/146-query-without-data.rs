//! A query needs an answer.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("plugin.query")]
    fn query(&self) {}
}

fn main() {}
