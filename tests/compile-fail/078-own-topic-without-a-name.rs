//! An author's own topic needs a name.
use jobtap_core::prelude::*;

#[topic(answer = f64)]
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
