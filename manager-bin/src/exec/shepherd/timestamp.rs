//! The timestamps of log entries.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in seconds since the Unix epoch.
pub(super) fn timestamp() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
