//! The clock of the manager and of its shepherd. The core reads no clock; it is given this time with each
//! input.

use std::time::SystemTime;

use jobtap_core::job::Timestamp;

/// The current time, as it goes into events: in whole microseconds, which are quick to write. Today
/// the floating point numbers of the seconds since 1970 are a quarter of a microsecond apart.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(elapsed.as_micros() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_whole_microseconds() {
        // A quarter of all times are whole microseconds anyway.
        for _ in 0..50 {
            let secs = now().as_secs();
            assert!(secs > 1.7e9);
            assert_eq!((secs * 1e6).round() / 1e6, secs);
        }
    }
}
