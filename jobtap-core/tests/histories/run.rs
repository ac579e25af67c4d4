//! How random histories are run.

/// Panics on purpose are not to be read by anybody.
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

/// Of each of the two tests, which run side by side.
pub(crate) fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(200_u32).div_ceil(2)
}
