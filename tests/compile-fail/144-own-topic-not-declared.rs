//! An undeclared topic is reported once.
use jobtap_core::prelude::*;

struct Other {
    share: f64,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self, question: &Other) -> f64 {
        question.share
    }
}

fn main() {}
