//! The error of a service is an errno and a text.
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
