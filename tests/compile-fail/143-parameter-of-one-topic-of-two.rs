//! A handler on two topics takes only parameters that both have.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new", "job.state.run")]
    fn seen(&self, prev: PrevState) {
        let _ = prev.0;
    }
}

fn main() {}
