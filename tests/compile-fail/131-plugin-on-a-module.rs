//! The attribute goes on the impl block.
use jobtap_core::prelude::*;

#[jobtap_plugin(name = "site")]
mod site {
    pub struct Site;
}

fn main() {
    let _ = site::Site;
}
