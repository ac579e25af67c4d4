//! An event of RFC 21 that is misspelt is not taken for an event of a plugin's own.

use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.event.finsh")]
    fn finish(&self, job: &Job, cx: Cx<'_, JobEventFinish>) {
        cx.log(Level::Info, format!("{} has finished", job.id()));
    }
}

fn main() {}
