//! Volatile data isn't stored, so it has no version.
use jobtap_core::prelude::*;

#[data(volatile, version = 2)]
#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

fn main() {
    let _ = Usage::default().0;
}
