//! A handler has no type parameters, since the manager can't choose their types.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job<T: Default>(&self, _job: &Job) {
        let _ = T::default();
    }
}

fn main() {}
