//! Only `conf.update` refuses a configuration.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) -> Result<(), ConfError> {
        Ok(())
    }
}

fn main() {}
