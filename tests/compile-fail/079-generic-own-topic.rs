//! An author's own topic has no type parameters.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
struct ShareOf<T> {
    of: T,
}

fn main() {
    let _ = ShareOf { of: Uid::new(0) }.of;
}
