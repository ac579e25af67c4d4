//! Data without the attribute has version 1.
use jobtap_core::prelude::*;

#[data(version = 0)]
#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

fn main() {
    let _ = Usage::default().0;
}
