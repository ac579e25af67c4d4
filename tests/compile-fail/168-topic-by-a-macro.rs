//! The attribute is read before what is inside of it is expanded.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(concat!("job.", "new"))]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
