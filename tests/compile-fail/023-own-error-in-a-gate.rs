//! A gate speaks to the user: it needs a `Reject`.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Result<(), String> {
        Err("no".to_owned())
    }
}

fn main() {}
