//! Flux standard durations (RFC 23): the way users write time limits and delays, such as `30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::number_or_text::NumberOrText;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Significant digits of `Display`.
const DISPLAY_DIGITS: u8 = 6;

/// A duration in seconds, never negative or NaN, possibly infinite (RFC 23).
///
/// It is written as a number with `ms`, `s` (the default), `m`, `h` or `d`, or as `inf` or
/// `infinity`. `Display` shows six significant digits. In serde it is read from a number of
/// seconds or from that text, and written as a number, or as `"infinity"`.
///
/// ```
/// use jobtap_core::job::Fsd;
///
/// let limit: Fsd = "1.5h".parse()?;
/// assert_eq!(limit.as_secs(), 5400.0);
/// assert_eq!(limit.to_string(), "1.5h");
/// # Ok::<(), jobtap_core::job::FsdError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Fsd(f64);

impl Fsd {
    /// Zero seconds. As a limit it means "unlimited".
    pub const ZERO: Self = Self(0.0);

    /// The infinite duration.
    pub const INFINITY: Self = Self(f64::INFINITY);

    /// The duration of this many seconds.
    ///
    /// # Errors
    /// [`FsdError`] if `secs` is negative or NaN.
    pub fn from_secs(secs: f64) -> Result<Self, FsdError> {
        if secs >= 0.0 {
            // `abs` removes the sign of a negative zero.
            Ok(Self(secs.abs()))
        } else {
            Err(FsdError(secs.to_string()))
        }
    }

    /// The number of seconds.
    #[must_use]
    pub const fn as_secs(self) -> f64 {
        self.0
    }

    /// Reads a duration of Flux's configuration, in which an empty text is 0.
    ///
    /// ```
    /// use jobtap_core::job::Fsd;
    ///
    /// assert_eq!(Fsd::from_config("")?, Fsd::from_secs(0.0)?);
    /// assert_eq!(Fsd::from_config("1m")?, Fsd::from_secs(60.0)?);
    /// # Ok::<(), jobtap_core::job::FsdError>(())
    /// ```
    ///
    /// # Errors
    /// [`FsdError`] for any other text that isn't a duration.
    pub fn from_config(text: &str) -> Result<Self, FsdError> {
        if text.is_empty() { Ok(Self(0.0)) } else { text.parse() }
    }

    /// Whether the duration is infinite.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    /// The same duration in the standard library's type; `None` if it is too long for that.
    #[must_use]
    pub fn to_duration(self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.0).ok()
    }

    /// Formats the duration with `digits` significant digits. Messages about limits use two.
    ///
    /// ```
    /// use jobtap_core::job::Fsd;
    ///
    /// assert_eq!(Fsd::from_secs(3599.0)?.format_digits(2), "60m");
    /// # Ok::<(), jobtap_core::job::FsdError>(())
    /// ```
    #[must_use]
    pub fn format_digits(self, digits: u8) -> String {
        let secs = self.0;
        if secs.is_infinite() {
            return "infinity".to_owned();
        }
        let (number, unit) = if secs == 0.0 {
            (secs, "s")
        } else if secs < 0.1 {
            (secs * 1000.0, "ms")
        } else if secs < MINUTE {
            (secs, "s")
        } else if secs < HOUR {
            (secs / MINUTE, "m")
        } else if secs < DAY {
            (secs / HOUR, "h")
        } else {
            (secs / DAY, "d")
        };
        significant(number, digits) + unit
    }
}

impl From<Duration> for Fsd {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

impl fmt::Display for Fsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.format_digits(DISPLAY_DIGITS))
    }
}

impl FromStr for Fsd {
    type Err = FsdError;

    fn from_str(text: &str) -> Result<Self, FsdError> {
        parse(text).map(Self).ok_or_else(|| FsdError(format!("`{text}`")))
    }
}

impl Serialize for Fsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_infinite() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Fsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Unsigned(secs) => Ok(Self(secs as f64)),
            NumberOrText::Negative(secs) => Err(FsdError(secs.to_string())),
            NumberOrText::Float(secs) => Self::from_secs(secs),
            NumberOrText::Text(text) => text.parse(),
        }
        .map_err(de::Error::custom)
    }
}

fn parse(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity") {
        return Some(f64::INFINITY);
    }
    let (number, scale): (_, fn(f64) -> f64) = if let Some(number) = text.strip_suffix("ms") {
        (number, |number| number / 1000.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, |number| number * MINUTE)
    } else if let Some(number) = text.strip_suffix('h') {
        (number, |number| number * HOUR)
    } else if let Some(number) = text.strip_suffix('d') {
        (number, |number| number * DAY)
    } else {
        (text.strip_suffix('s').unwrap_or(text), |number| number)
    };
    // The standard library's parser would also accept a sign, `nan` and `inf`.
    let unsigned = number.starts_with(|first: char| first == '.' || first.is_ascii_digit());
    let secs = scale(number.parse().ok().filter(|_| unsigned)?);
    secs.is_finite().then_some(secs)
}

/// Formats like C's `%.*g`: `digits` significant digits, no trailing zeros, and an exponent for very
/// large and very small numbers.
fn significant(number: f64, digits: u8) -> String {
    let digits = usize::from(digits.max(1));
    let rounded = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: isize = exponent.parse().unwrap_or(0);
    match (digits - 1).checked_add_signed(-exponent) {
        Some(decimals) if exponent >= -4 => trim_zeros(&format!("{number:.decimals$}")).to_owned(),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            let power = exponent.unsigned_abs();
            format!("{}e{sign}{power:02}", trim_zeros(mantissa))
        }
    }
}

fn trim_zeros(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}

/// A text or number that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid Flux standard duration {0}: use a number with ms, s, m, h or d, or infinity")]
pub struct FsdError(String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_the_forms_of_rfc_23() {
        for (text, secs) in [
            ("2ms", 0.002),
            ("500ms", 0.5),
            ("0.1s", 0.1),
            ("30", 30.0),
            ("0s", 0.0),
            ("0", 0.0),
            ("5m", 300.0),
            ("1.2h", 4320.0),
            (".5h", 1800.0),
            ("5d", 432000.0),
            ("1e3", 1000.0),
            ("1E-3s", 0.001),
            ("inf", f64::INFINITY),
            ("INFINITY", f64::INFINITY),
            ("Infinity", f64::INFINITY),
        ] {
            assert_eq!(text.parse(), Ok(Fsd(secs)), "{text}");
        }
    }

    #[test]
    fn refuses_invalid_durations() {
        for text in [
            "-1", "-1s", "nan", "1.0f", "1.0sec", "5S", "5M", "1us", "1w", "infs", "infd", "1h30m",
            "5 s", "1.5.2", "foo", "", "s", "ms", "m", ".", "+5", "0x1", " 5", "5 ", "1e400",
            "1e308d", "1e", "e5", "-inf", "nans", "-0",
        ] {
            assert!(text.parse::<Fsd>().is_err(), "{text}");
        }
    }

    #[test]
    fn display_has_six_digits_and_a_suitable_unit() {
        for (secs, text) in [
            (0.0, "0s"),
            (0.001, "1ms"),
            (0.0621, "62.1ms"),
            (0.1, "0.1s"),
            (5.1, "5.1s"),
            (59.0, "59s"),
            (60.0, "1m"),
            (62.0, "1.03333m"),
            (4500.0, "1.25h"),
            (103680.0, "1.2d"),
            (86400.0 * 1e9, "1e+09d"),
            (1e-8, "1e-05ms"),
            (f64::INFINITY, "infinity"),
        ] {
            assert_eq!(Fsd(secs).to_string(), text);
        }
        assert_eq!(format!("{:>4}|", Fsd(60.0)), "  1m|");
    }

    #[test]
    fn limit_messages_have_two_digits() {
        for (secs, text) in [
            (3599.0, "60m"),
            (90.0, "1.5m"),
            (7200.0, "2h"),
            (100.0, "1.7m"),
            (86400.0 * 365.0, "3.6e+02d"),
        ] {
            assert_eq!(Fsd(secs).format_digits(2), text);
        }
    }

    #[test]
    fn significant_digits_agree_with_printf() {
        for (number, digits, text) in [
            (0.0, 6, "0"),
            (0.0001, 6, "0.0001"),
            (0.00001, 6, "1e-05"),
            (123456.0, 6, "123456"),
            (1234567.0, 6, "1.23457e+06"),
            (999999.5, 6, "1e+06"),
            (100.0, 3, "100"),
            (100.0, 0, "1e+02"),
            (1e300, 2, "1e+300"),
        ] {
            assert_eq!(significant(number, digits), text);
        }
    }

    #[test]
    fn json_is_a_number_or_text() {
        for (text, secs) in
            [("90", 90.0), ("1.5", 1.5), ("\"1m\"", 60.0), ("\"inf\"", f64::INFINITY)]
        {
            assert_eq!(serde_json::from_str::<Fsd>(text).unwrap(), Fsd(secs));
        }
        for text in ["-1", "-0.5", "\"5S\"", "null", "true"] {
            assert!(serde_json::from_str::<Fsd>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::to_string(&Fsd::INFINITY).unwrap(), "\"infinity\"");
    }

    #[test]
    fn standard_durations_convert() {
        assert_eq!(Fsd::from(Duration::from_millis(1500)), Fsd(1.5));
        assert_eq!(Fsd(1.5).to_duration(), Some(Duration::from_millis(1500)));
        assert_eq!(Fsd::INFINITY.to_duration(), None);
        assert!(Fsd::from_secs(f64::NAN).is_err());
        assert!(Fsd::from_secs(-1.0).is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips_to_six_digits(secs in 0.0..1e12f64) {
            let read: Fsd = Fsd(secs).to_string().parse().unwrap();
            prop_assert!((read.as_secs() - secs).abs() <= secs * 1e-5);
        }

        #[test]
        fn json_keeps_every_bit(secs in prop::num::f64::POSITIVE | prop::num::f64::ZERO) {
            let secs = secs.abs();
            let text = serde_json::to_string(&Fsd(secs)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Fsd>(&text).unwrap(), Fsd(secs));
        }

        #[test]
        fn accepted_text_is_a_valid_duration(text in "\\PC*|[0-9.eE+-]{0,8}(ms|[smhd])?") {
            if let Ok(duration) = text.parse::<Fsd>() {
                prop_assert!(duration.as_secs() >= 0.0);
            }
        }

        #[test]
        fn display_of_any_duration_is_short(secs in prop::num::f64::ANY, digits: u8) {
            if let Ok(duration) = Fsd::from_secs(secs) {
                prop_assert!(duration.format_digits(digits).parse::<Fsd>().is_ok());
            }
        }
    }
}
