//! `#[service]` alone does nothing.
use jobtap_core::prelude::*;

struct Site;

impl Site {
    #[service("limit")]
    fn limit(&self) -> u32 {
        1
    }
}

fn main() {
    let _ = Site.limit();
}
