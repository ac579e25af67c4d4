//! The clock of the manager and of its shepherd. The core reads no clock; it is given this time with each
//! input.

use std::time::SystemTime;

use jobtap_core::job::Timestamp;

/// The current time, as it goes into events.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(elapsed.as_secs_f64())
}
