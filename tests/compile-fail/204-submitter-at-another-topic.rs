//! The user of a job is the job's.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, user: SubmitUid) {
        let _ = user;
    }
}

fn main() {}
