//! Clocks that measure the time of handlers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Returns the coarse clock, and the function that reads the precise one.
pub(crate) fn ticks() -> (Arc<AtomicU64>, fn() -> u64) {
    (Arc::default(), nanoseconds)
}

/// Returns the nanoseconds since the first call.
fn nanoseconds() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
