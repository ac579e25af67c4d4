//! A topic with an answer needs one from each handler.
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
    fn share(&self, question: &ShareOf) {
        let _ = question.user;
    }
}

fn main() {}
