//! The name of a topic is a string literal.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(job.state.run, job.state.cleanup)]
    fn watch(&self) {}
}

fn main() {}
