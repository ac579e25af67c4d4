//! A plugin has one handler for an author's own topic, by whatever path.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
struct ShareOf;

type Question = ShareOf;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(ShareOf)]
    fn share(&self, _question: &ShareOf) -> f64 {
        1.0
    }

    #[on(Question)]
    fn question(&self, _question: &ShareOf) -> f64 {
        0.0
    }
}

fn main() {}
