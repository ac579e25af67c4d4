//! The name is an argument with a key.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin("site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self) {}
}

fn main() {}
