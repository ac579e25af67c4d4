//! The manager's topics are named by strings.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(JobEvent)]
    fn event(&self, entry: &EventEntry) {
        let _ = entry;
    }
}

fn main() {}
