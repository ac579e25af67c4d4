//! The caller of an author's own topic gets the answer at once, so its handlers aren't `async`.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
struct ShareOf;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    async fn share(_job: JobInfo) -> f64 {
        1.0
    }
}

fn main() {}
