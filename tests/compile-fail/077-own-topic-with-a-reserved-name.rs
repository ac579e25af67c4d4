//! The name is reserved for the manager; the handler is not reported.
use jobtap_core::prelude::*;

#[topic("job.share", answer = f64)]
struct ShareOf {
    user: Uid,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self, question: &ShareOf) -> f64 {
        f64::from(question.user.0)
    }
}

fn main() {}
