//! Points in time, as floating point seconds. This is their form in eventlogs (RFC 18), so they are
//! stored without any loss.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration::Fsd;

/// Seconds since the UNIX epoch, with fractions.
///
/// ```
/// use jobtap_core::job::Timestamp;
///
/// let start = Timestamp::from_secs(1700000000.0);
/// let end = start + 1.5;
/// assert_eq!(end - start, 1.5);
/// assert_eq!(end, start + std::time::Duration::from_millis(1500));
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

    /// Parses a time in the form of RFC 3339; `None` if the text is malformed or has no zone, or if the day, time or
    /// zone doesn't exist, such as 31 February or 24:00.
    ///
    /// ```
    /// use jobtap_core::job::Timestamp;
    ///
    /// let time = Timestamp::parse("2026-01-31T08:00:00.5+01:00");
    /// assert_eq!(time, Some(Timestamp::from_secs(1_769_842_800.5)));
    /// assert_eq!(Timestamp::parse("2026-01-31 08:00:00"), None); // no zone
    /// assert_eq!(Timestamp::parse("2026-02-29T08:00:00Z"), None); // 2026 is no leap year
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(Self(time.as_duration().as_secs_f64()))
    }

    /// Compares by a total order, for sorting.
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

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self + duration.as_secs_f64()
    }
}

impl Add<Fsd> for Timestamp {
    type Output = Self;

    fn add(self, duration: Fsd) -> Self {
        self + duration.as_secs()
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
    /// The difference in seconds.
    type Output = f64;

    fn sub(self, earlier: Self) -> f64 {
        self.0 - earlier.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adds_seconds_and_subtracts_times() {
        let mut time = Timestamp::from_secs(10.0);
        time += 2.0;
        time -= 0.5;
        assert_eq!(time, Timestamp(11.5));
        assert_eq!(time - 1.5, Timestamp(10.0));
        assert_eq!(time - Timestamp(10.0), 1.5);
    }

    #[test]
    fn parses_dates_in_any_zone() {
        let at = |text: &str| Timestamp::parse(text).map(Timestamp::as_secs);
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(at("2000-02-29 12:00Z"), Some(951_825_600.0));
        assert_eq!(at("2000-03-01T00:00:00-02:30"), Some(951_877_800.0));
        for wrong in ["", "2000-13-01T00:00:00Z", "2000-01-01T24:00:00Z", "x", "2000-01-01", "--TZ"]
        {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_day_that_does_not_exist_is_no_time() {
        let is_time = |date: &str| Timestamp::parse(&format!("{date}T08:00:00Z")).is_some();
        for (month, last) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].iter().enumerate() {
            let day = |day: u32| format!("2026-{:02}-{day:02}", month + 1);
            assert!(is_time(&day(*last)) && !is_time(&day(last + 1)), "{}", day(*last));
            assert!(!is_time(&day(0)));
        }
        assert!(is_time("2024-02-29") && is_time("2000-02-29"));
        assert!(!is_time("2023-02-29") && !is_time("1900-02-29") && !is_time("2026-02-31"));
        for zone in ["+26:00", "+01:60", "-99:00"] {
            assert_eq!(Timestamp::parse(&format!("2026-01-01T08:00:00{zone}")), None, "{zone}");
        }
    }

    #[test]
    fn json_accepts_whole_and_fractional_numbers() {
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
