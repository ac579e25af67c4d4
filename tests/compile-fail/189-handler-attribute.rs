//! The attribute of a handler is `on`.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[handler("job.state.run")]
    fn run(&self) {}
}

fn main() {}
