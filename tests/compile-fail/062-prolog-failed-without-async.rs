//! The error of an `async` prolog in a handler that isn't one.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, _job: &Job) -> Result<(), PrologFailed> {
        Ok(())
    }
}

fn main() {}
