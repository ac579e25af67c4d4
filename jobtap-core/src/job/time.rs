//! Points in time. The engine gets them from its host and stores them as they stand in the
//! eventlog (RFC 18), so they are seconds in floating point and nothing more.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Seconds since the UNIX epoch, with fractions.
///
/// ```
/// use jobtap_core::job::Timestamp;
///
/// let start = Timestamp::from_secs(1700000000.0);
/// let end = start + 1.5;
/// assert_eq!(end - start, 1.5);
/// assert!(start < end);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub f64);

impl Timestamp {
    /// The time this many seconds after the UNIX epoch.
    #[must_use]
    pub const fn from_secs(secs: f64) -> Self {
        Self(secs)
    }

    /// Seconds since the UNIX epoch.
    #[must_use]
    pub const fn as_secs(self) -> f64 {
        self.0
    }

    /// A total order, for sorting.
    #[must_use]
    pub fn total_cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Add<f64> for Timestamp {
    type Output = Self;

    fn add(self, secs: f64) -> Self {
        Self(self.0 + secs)
    }
}

impl AddAssign<f64> for Timestamp {
    fn add_assign(&mut self, secs: f64) {
        self.0 += secs;
    }
}

impl Sub<f64> for Timestamp {
    type Output = Self;

    fn sub(self, secs: f64) -> Self {
        Self(self.0 - secs)
    }
}

impl SubAssign<f64> for Timestamp {
    fn sub_assign(&mut self, secs: f64) {
        self.0 -= secs;
    }
}

impl Sub for Timestamp {
    /// Seconds.
    type Output = f64;

    fn sub(self, earlier: Self) -> f64 {
        self.0 - earlier.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_are_added_and_times_subtracted() {
        let mut time = Timestamp::from_secs(10.0);
        time += 2.0;
        time -= 0.5;
        assert_eq!(time, Timestamp(11.5));
        assert_eq!(time - 1.5, Timestamp(10.0));
        assert_eq!(time - Timestamp(10.0), 1.5);
    }

    #[test]
    fn json_takes_whole_and_fractional_numbers() {
        assert_eq!(serde_json::from_str::<Timestamp>("5").unwrap(), Timestamp(5.0));
        assert!(serde_json::from_str::<Timestamp>("\"5\"").is_err());
    }

    proptest! {
        #[test]
        fn json_keeps_every_bit(secs in prop::num::f64::NORMAL | prop::num::f64::ZERO) {
            let text = serde_json::to_string(&Timestamp(secs)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), Timestamp(secs));
        }
    }
}
