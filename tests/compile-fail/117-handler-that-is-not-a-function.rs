//! A handler is a function.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    const NEW: u32 = 1;
}

fn main() {}
