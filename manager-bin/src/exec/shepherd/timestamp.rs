//! The time that goes into log entries.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time of an event: seconds since the UNIX epoch.
pub(super) fn timestamp() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
