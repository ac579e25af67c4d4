//! The answer of a topic is a type, not a string.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = "f64")]
struct ShareOf;

fn main() {}
