//! A handler returns the answer type that the topic declares.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
struct ShareOf {
    user: Uid,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self, question: &ShareOf) -> u32 {
        question.user.0
    }
}

fn main() {}
