//! One dependency at a time, under its scheme.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.depend")]
    fn depend(&self, dependency: &Dependency) {
        let _ = &dependency.value;
    }
}

fn main() {}
