//! Clocks for metering handlers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The coarse clock, and how the precise one is read.
pub(crate) fn ticks() -> (Arc<AtomicU64>, fn() -> u64) {
    (Arc::default(), nanoseconds)
}

/// Nanoseconds since the first call.
fn nanoseconds() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
