//! No part of an answer can be borrowed.
use jobtap_core::prelude::*;

#[topic("accounts.names", answer = Vec<&str>)]
struct Names;

fn main() {}
