//! The conversions after the exclamation mark of a field, which make times and durations readable.

use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::error::{FormatError, SpecificationFault};
use super::number;
use super::value::{FieldValue, quoted};

/// A conversion, which is applied to a value before the format specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conversion {
    /// `!d` with a format for strftime: seconds since the epoch as local time. Zero becomes empty.
    LocalTime(String),
    /// `!F`: seconds as a duration in Flux's standard form.
    Fsd,
    /// `!H`: seconds as hours, minutes and seconds.
    Clock,
    /// `!P`: a fraction as a percentage.
    Percent,
    /// `!s`: any value as text.
    Text,
    /// `!r`: any value as Python's `repr` writes it, with quotes around texts.
    Quoted,
    /// `!a`: the same, with the characters that aren't in ASCII escaped.
    Ascii,
}

/// The format of `!D`, and of `!d` if it gives none.
const DEFAULT_TIME: &str = "%FT%T";

impl Conversion {
    /// Returns the conversion `name`, and the format specification without the part of `spec` that belongs to
    /// the conversion.
    pub(super) fn parse<'a>(name: &str, spec: &'a str) -> Result<(Self, &'a str), FormatError> {
        Ok(match name {
            "d" => {
                let (time, spec) = spec.split_once("::").unwrap_or((spec, ""));
                (Conversion::LocalTime(posix_time_format(time)), spec)
            }
            "D" => (Conversion::LocalTime(DEFAULT_TIME.to_owned()), spec),
            "F" => (Conversion::Fsd, spec),
            "H" => (Conversion::Clock, spec),
            "P" => (Conversion::Percent, spec),
            "s" => (Conversion::Text, spec),
            "r" => (Conversion::Quoted, spec),
            "a" => (Conversion::Ascii, spec),
            _ => return Err(SpecificationFault::UnknownConversion(name.to_owned()).into()),
        })
    }

    /// Converts `value`. An empty value remains empty.
    pub(super) fn apply(
        &self,
        value: &FieldValue,
        zone: &TimeZone,
    ) -> Result<FieldValue, FormatError> {
        let text = value.text();
        let python = || match value {
            FieldValue::Text(text) => quoted(text),
            FieldValue::JobId { number, .. } => format!("JobID({number})"),
            _ => value.text(),
        };
        match self {
            Conversion::Quoted => return Ok(FieldValue::Text(python())),
            Conversion::Ascii => return Ok(FieldValue::Text(ascii(&python()))),
            Conversion::Text => return Ok(FieldValue::Text(text)),
            _ if text.is_empty() => return Ok(FieldValue::Text(text)),
            _ => {}
        }
        let number = value.number().ok_or(match self {
            Conversion::LocalTime(_) => SpecificationFault::NoTime,
            Conversion::Fsd => SpecificationFault::NoDuration,
            _ => SpecificationFault::NoNumber,
        })?;
        Ok(FieldValue::Text(match self {
            Conversion::LocalTime(format) => local_time(number, format, zone),
            Conversion::Fsd => fsd(number),
            Conversion::Clock => clock(number),
            Conversion::Percent => percent(number),
            Conversion::Text | Conversion::Quoted | Conversion::Ascii => text,
        }))
    }
}

/// The text, with the characters that aren't in ASCII escaped.
fn ascii(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match u32::from(c) {
            0..0x80 => escaped.push(c),
            code @ 0x80..0x100 => escaped += &format!("\\x{code:02x}"),
            code @ 0x100..0x1_0000 => escaped += &format!("\\u{code:04x}"),
            code => escaped += &format!("\\U{code:08x}"),
        }
    }
    escaped
}

/// Translates a format of Python's strftime for jiff: `%f` always has six digits in Python, and a variable number of
/// digits in jiff.
fn posix_time_format(text: &str) -> String {
    match text.is_empty() {
        true => DEFAULT_TIME.to_owned(),
        // The NUL keeps the `f` in `%%f` from being taken for a directive.
        false => text.replace("%%", "%%\0").replace("%f", "%6f").replace('\0', ""),
    }
}

/// Formats `seconds` since the epoch as a local time. Empty for zero, and for times outside the range of the
/// calendar.
fn local_time(seconds: f64, format: &str, zone: &TimeZone) -> String {
    if seconds == 0.0 {
        return String::new();
    }
    let Some(time) = to_zoned(seconds, zone) else {
        return String::new();
    };
    // As in the C library, an unknown directive is printed unchanged.
    let config = Config::new().custom(PosixCustom::new()).lenient(true);
    BrokenDownTime::from(&time).to_string_with_config(&config, format).unwrap_or_default()
}

/// Converts `seconds` since the epoch to a time in `zone`, rounded to microseconds.
pub(super) fn to_zoned(seconds: f64, zone: &TimeZone) -> Option<Zoned> {
    let micros = (seconds * 1e6).round();
    // The cast saturates; `from_microsecond` refuses values that are out of range.
    let time = Timestamp::from_microsecond(micros as i64).ok().filter(|_| micros.is_finite())?;
    Some(time.to_zoned(zone.clone()))
}

/// Formats `seconds` as a Flux standard duration of about four digits: `0s`, `0.030s`, `12.5s`, `1.5h`,
/// `inf`.
pub(crate) fn fsd(seconds: f64) -> String {
    if seconds < 1e-3 {
        return "0s".to_owned();
    }
    if seconds < 10.0 {
        return number::fixed(seconds, 3) + "s";
    }
    let (amount, unit) = match seconds {
        s if s.is_infinite() => return "inf".to_owned(),
        s if s < 60.0 => (s, "s"),
        s if s < 3600.0 => (s / 60.0, "m"),
        s if s < 86400.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "d"),
    };
    number::general(amount, 4) + unit
}

/// Formats `seconds` as `H:MM:SS`, preceded by whole days: `1 day, 2:03:04`.
///
/// A positive duration shows at least one second, to be distinguished from zero.
fn clock(seconds: f64) -> String {
    if !seconds.is_finite() {
        return number::shortest(seconds);
    }
    let rounded = seconds.round_ties_even();
    let whole = if seconds > 0.0 { rounded.max(1.0) } else { rounded } as i64;
    let (days, rest) = (whole.div_euclid(86400), whole.rem_euclid(86400));
    let time = format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    match days {
        0 => time,
        1 | -1 => format!("{days} day, {time}"),
        _ => format!("{days} days, {time}"),
    }
}

fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match 0.0 < percent && percent < 1.0 {
        true => number::fixed(percent, 2) + "%",
        false => number::general(percent, 3) + "%",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn convert(name: &str, spec: &str, value: impl Into<FieldValue>) -> String {
        let (conversion, _) = Conversion::parse(name, spec).unwrap();
        conversion.apply(&value.into(), &TimeZone::UTC).unwrap().text()
    }

    fn seconds(s: f64) -> FieldValue {
        FieldValue::Float(s)
    }

    #[test]
    fn fsd_has_about_four_digits() {
        for (value, text) in [
            (0.0, "0s"),
            (0.0004, "0s"),
            (0.03, "0.030s"),
            (9.9999, "10.000s"),
            (12.5, "12.5s"),
            (62.0, "1.033m"),
            (300.0, "5m"),
            (3600.0, "1h"),
            (129600.0, "1.5d"),
            (f64::INFINITY, "inf"),
            (-5.0, "0s"),
        ] {
            assert_eq!(convert("F", "", seconds(value)), text);
        }
    }

    #[test]
    fn clock_rounds_up_to_a_second_and_counts_days() {
        for (value, text) in [
            (0.0, "0:00:00"),
            (0.2, "0:00:01"),
            (61.4, "0:01:01"),
            (3661.0, "1:01:01"),
            (86400.0, "1 day, 0:00:00"),
            (180000.0, "2 days, 2:00:00"),
        ] {
            assert_eq!(convert("H", "", seconds(value)), text);
        }
    }

    #[test]
    fn percentages_have_two_decimals_or_three_digits() {
        assert_eq!(convert("P", "", seconds(0.123)), "12.3%");
        assert_eq!(convert("P", "", seconds(0.0034)), "0.34%");
        assert_eq!(convert("P", "", seconds(0.0)), "0%");
        assert_eq!(convert("P", "", seconds(1.0)), "100%");
        assert_eq!(convert("P", "", seconds(90.0)), "9e+03%");
    }

    #[test]
    fn texts_are_quoted_as_python_writes_them() {
        assert_eq!(convert("r", "", "a b"), "'a b'");
        assert_eq!(convert("r", "", "it's"), "\"it's\"");
        assert_eq!(convert("r", "", "'\"\n\\"), r#"'\'"\n\\'"#);
        assert_eq!(convert("r", "", ""), "''");
        assert_eq!(convert("r", "", FieldValue::Int(7)), "7");
    }

    #[test]
    fn local_time_of_zero_is_empty() {
        let time = seconds(1_699_995_759.537_774_6);
        assert_eq!(convert("d", "", time.clone()), "2023-11-14T21:02:39");
        assert_eq!(convert("D", "", time.clone()), "2023-11-14T21:02:39");
        assert_eq!(convert("d", "%b%d %R::>12", time.clone()), "Nov14 21:02");
        assert_eq!(convert("d", "%S.%f %%f", time.clone()), "39.537775 %f");
        assert_eq!(convert("d", "%T::", "1699995759"), "21:02:39");
        assert_eq!(convert("d", "%R", seconds(0.0)), "");
        assert_eq!(convert("D", "", ""), "");
        let (conversion, rest) = Conversion::parse("d", "%R::>12h").unwrap();
        assert_eq!(rest, ">12h");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(conversion.apply(&time, &east).unwrap().text(), "23:02");
    }

    #[test]
    fn values_are_quoted_as_python_does() {
        assert_eq!(convert("r", "", "ö\n"), "'ö\\n'");
        assert_eq!(convert("a", "", "ö€😀"), "'\\xf6\\u20ac\\U0001f600'");
        let id = FieldValue::JobId { number: 7, text: "ƒ8".to_owned() };
        assert_eq!(
            (convert("r", "", id.clone()), convert("s", "", id)),
            ("JobID(7)".into(), "ƒ8".into())
        );
    }

    #[test]
    fn values_that_are_not_numbers_are_refused() {
        for (name, text) in [
            ("F", "must be real number, not str"),
            ("D", "'str' object cannot be interpreted as an integer"),
            ("H", "'<' not supported between instances of 'int' and 'str'"),
        ] {
            let (conversion, _) = Conversion::parse(name, "").unwrap();
            let error = conversion.apply(&"abc".into(), &TimeZone::UTC).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        let error = Conversion::parse("q", "").unwrap_err();
        assert_eq!(error.to_string(), "Unknown conversion specifier q");
    }

    proptest! {
        #[test]
        fn text_between_directives_remains(before in "[^%:\\x00]{0,6}", value in 1.0..4e9) {
            prop_assert_eq!(convert("d", &format!("{before}%%"), seconds(value)), before.clone() + "%");
            let shown = convert("d", &format!("{before}%S"), seconds(value));
            prop_assert!(shown.starts_with(&before), "{}", shown);
        }

        #[test]
        fn every_number_converts_to_the_form_of_its_conversion(
            format in "(%?.){0,8}", value in any::<f64>(), name in "[FHPsr]",
        ) {
            let text = convert(&name, &format, seconds(value));
            let fits = match &*name {
                "F" => text.ends_with(['s', 'm', 'h', 'd']) || text == "inf",
                "H" => text.contains(':') || !value.is_finite(),
                "P" => text.ends_with('%'),
                _ => text == number::shortest(value),
            };
            prop_assert!(fits, "{} of {}: {}", name, value, text);
        }

        #[test]
        fn times_out_of_range_are_empty(value in any::<f64>(), format in "(%?.){0,8}") {
            let text = convert("d", &format, seconds(value));
            let shown = to_zoned(value, &TimeZone::UTC).is_some() && value != 0.0;
            prop_assert!(shown || text.is_empty(), "{}", text);
        }
    }
}
