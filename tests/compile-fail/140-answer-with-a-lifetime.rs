//! The answer goes to another plugin, so it borrows nothing.
use jobtap_core::prelude::*;

#[topic("accounts.name", answer = &str)]
struct NameOf {
    user: Uid,
}

fn main() {
    let _ = NameOf { user: Uid::new(0) }.user;
}
