//! An answer goes to another plugin, with all that is in it.
use jobtap_core::prelude::*;

#[topic("accounts.names", answer = Vec<&str>)]
struct Names;

fn main() {}
