//! A handler of `job.dependency.SCHEME` gets one dependency at a time.
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
