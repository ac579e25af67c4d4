//! `PrologFailed` is an error of `async` handlers.
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
