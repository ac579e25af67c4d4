//! No topic has a parameter of this type.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, queue: String) {
        let _ = queue;
    }
}

fn main() {}
