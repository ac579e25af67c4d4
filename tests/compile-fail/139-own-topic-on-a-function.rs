//! `#[topic]` goes on a struct.
use jobtap_core::prelude::*;

#[topic("accounts.share", answer = f64)]
fn share_of(user: Uid) -> f64 {
    f64::from(user.0)
}

fn main() {
    let _ = share_of(Uid::new(0));
}
