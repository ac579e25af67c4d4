//! Only a plugin can be tested.
use jobtap_core::testing::TestManager;

struct Site;

impl Site {
    fn seen(&self) {}
}

fn starts() {
    let _m = TestManager::new().plugin::<Site>().start();
}

fn main() {}
