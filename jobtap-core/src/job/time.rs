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

    /// Parses a time in the form of RFC 3339; `None` if the text is malformed or has no zone, or if there is no such day,
    /// time or zone, as 31 February and 24:00.
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
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let zone = time.find(['Z', 'z', '+', '-'])?;
        let (time, zone) = time.split_at_checked(zone)?;
        let [year, month, day] = parts(date, '-')?;
        let clock = match time.matches(':').count() {
            1 => parts(&format!("{time}:0"), ':')?,
            _ => parts(time, ':')?,
        };
        let [hour, minute, second] = clock;
        let whole = |number: f64| number.fract() == 0.0;
        let valid = (1.0..=9999.0).contains(&year)
            && (1.0..=12.0).contains(&month)
            && (1.0..=days_of(year, month)).contains(&day)
            && (0.0..24.0).contains(&hour)
            && (0.0..60.0).contains(&minute)
            && (0.0..61.0).contains(&second)
            && [year, month, day, hour, minute].into_iter().all(whole);
        let seconds = days(year, month, day) * 86_400.0 + hour * 3600.0 + minute * 60.0 + second;
        valid.then_some(Self(seconds - offset(zone)?))
    }

    /// Compares by a total order, for sorting.
    #[must_use]
    pub fn total_cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Reads three numbers that are separated by `separator`.
fn parts(text: &str, separator: char) -> Option<[f64; 3]> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let mut numbers = text.split(separator).map(|part| part.parse().ok().filter(|_| digits(part)));
    let three = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(three)
}

/// The number of seconds that a zone is ahead of UTC.
fn offset(zone: &str) -> Option<f64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
    let [hours, minutes, _] = parts(&format!("{}:0", zone.get(1..)?), ':')?;
    let valid = (0.0..24.0).contains(&hours) && (0.0..60.0).contains(&minutes);
    valid.then_some(sign * (hours * 3600.0 + minutes * 60.0))
}

/// The number of days of a month.
fn days_of(year: f64, month: f64) -> f64 {
    let (next_year, next_month) =
        if month < 12.0 { (year, month + 1.0) } else { (year + 1.0, 1.0) };
    days(next_year, next_month, 1.0) - days(year, month, 1.0)
}

/// The number of days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from
/// March, so that the leap day comes last.
fn days(year: f64, month: f64, day: f64) -> f64 {
    let year = if month > 2.0 { year } else { year - 1.0 };
    let from_march = (month + 9.0) % 12.0;
    let leap = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    365.0 * year + leap + ((153.0 * from_march + 2.0) / 5.0).floor() + day - 719_469.0
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
        for zone in ["+24:00", "+01:60", "-99:00"] {
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
