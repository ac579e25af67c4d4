//! The answer of an own topic is a type.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = "f64")]
struct ShareOf;

fn main() {}
