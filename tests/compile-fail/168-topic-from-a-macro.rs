//! The attribute sees its arguments before macros in them are expanded.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(concat!("job.", "new"))]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
