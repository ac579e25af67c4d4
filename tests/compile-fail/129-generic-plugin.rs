//! The manager builds a plugin by its name, so it has no type parameters.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site<T>(T);

#[jobtap_plugin(name = "site")]
impl<T: Default> Site<T> {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {
    let _ = Site::<u32>::default().0;
}
