//! A gate needs a `Reject`, whose text the user reads.
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
