//! Only a request in Slurm's terms is answered with messages.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) {
        cx.user_message("welcome");
    }
}

fn main() {}
