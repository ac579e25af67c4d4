//! The error of `#[init]` is `ConfError`, which names the key.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new() -> Result<Self, String> {
        Err("no".to_owned())
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
