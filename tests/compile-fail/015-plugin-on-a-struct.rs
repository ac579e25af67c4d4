//! The attribute goes on the impl block.
use jobtap_core::prelude::*;

#[jobtap_plugin(name = "site")]
#[derive(Default)]
struct Site;

fn main() {
    let _ = Site;
}
