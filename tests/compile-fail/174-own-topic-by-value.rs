//! A handler borrows the payload of a topic.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
struct ShareOf {
    user: u32,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self, question: ShareOf) -> f64 {
        f64::from(question.user)
    }
}

fn main() {}
