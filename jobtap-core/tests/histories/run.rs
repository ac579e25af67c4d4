//! How random histories are run, and how they end.

use jobtap_core::job::State;
use jobtap_core::testing::TestManager;
use proptest::prelude::*;

/// Keeps the messages of panics on purpose out of the test's output.
pub(crate) fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some("hostile") {
                usual(info);
            }
        }));
    });
}

/// The number of histories per test: half of what is asked for, since two tests run side by side.
pub(crate) fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(200_u32).div_ceil(2)
}

/// Ends every job and removes every plugin, so that nothing holds a job any more.
pub(crate) fn end_all(m: &mut TestManager) {
    let _ = m.cancel_all();
    let _ = m.remove_plugin("all");
    m.advance(100.0);
    let _ = m.cancel_all();
    m.advance(100.0);
}

/// Checks that every job is inactive.
pub(crate) fn all_are_over(m: &TestManager) -> Result<(), TestCaseError> {
    for id in m.jobs() {
        let state = m.job(id).state();
        prop_assert_eq!(state, State::Inactive, "{}: {:?}", id, m.events(id));
    }
    Ok(())
}
