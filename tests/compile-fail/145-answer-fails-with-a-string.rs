//! A service refuses with an errno and a sentence.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("limit")]
    fn limit(&self) -> Result<u32, String> {
        Err("no".to_owned())
    }
}

fn main() {}
