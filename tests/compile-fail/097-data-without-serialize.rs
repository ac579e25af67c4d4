//! Data is stored as JSON; its uses are not reported.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Usage {
    seconds: u64,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", data = Usage)]
impl Site {
    #[on("job.new")]
    fn new_job(&self, usage: Data<'_, Usage>) -> Result<(), HandlerError> {
        usage.update(|usage| usage.seconds += 1)?;
        Ok(())
    }
}

fn main() {}
