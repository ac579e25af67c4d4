//! Parses points in time that users type: `--since=-8h`, `--begin-time="tomorrow 10am"`.

mod words;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jobtap_core::job::Fsd;

use self::words::parse_words;

/// Parses a point in time, relative to the time `now` in the time zone `zone`, and returns it in seconds
/// since the epoch. Returns `None` if the text isn't understood.
///
/// It accepts seconds since the epoch, `now`, `-DURATION` and `+DURATION` from now, dates (`YYYY-MM-DD`, `YYYYMMDD`,
/// `YYYY-MM-DD HH:MM[:SS]`, with `T` instead of the space or with an offset from UTC, and `HH:MM[:SS]` for
/// today), and words, see [`words`].
///
/// A day that doesn't exist, such as 31 February, is not understood, and neither is 24:00. A time that the clocks skip
/// when summer time begins is moved forward: 2:30 means 3:30. A time that occurs twice when summer time ends means the
/// first occurrence.
pub(crate) fn parse_when(text: &str, now: f64, zone: &TimeZone) -> Option<f64> {
    let text = text.trim();
    if text == "now" {
        return Some(now);
    }
    // `now + 1h` with or without blanks.
    let is_distance = |rest: &&str| {
        let amount = rest.strip_prefix(['+', '-']).map(str::trim_start);
        amount.is_some_and(|amount| amount.parse::<Fsd>().is_ok())
    };
    let after_now = text.strip_prefix("now").map(str::trim_start);
    let text = after_now.filter(is_distance).unwrap_or(text);
    for (sign, factor) in [('-', -1.0), ('+', 1.0)] {
        if let Some(duration) = text.strip_prefix(sign) {
            let duration: Fsd = duration.trim_start().parse().ok()?;
            return Some(now + factor * duration.as_secs()).filter(|when| when.is_finite());
        }
    }
    // As seconds since the epoch it would be a day in 1970, which nobody means.
    if is_basic_date(text) {
        let day = text.parse::<Date>().ok()?.to_zoned(zone.clone()).ok()?;
        return Some(seconds(day.timestamp()));
    }
    // `f64` accepts `inf` and `nan` as well.
    if text.starts_with(|c: char| c.is_ascii_digit())
        && let Ok(seconds) = text.parse::<f64>()
    {
        return Some(seconds).filter(|seconds| seconds.is_finite());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(seconds(time));
    }
    let now = Timestamp::from_microsecond((now * 1e6) as i64).ok()?.to_zoned(zone.clone());
    let civil = if let Ok(civil) = text.parse::<DateTime>() {
        civil
    } else if let Ok(time) = text.parse::<Time>() {
        now.date().to_datetime(time)
    } else {
        return Some(seconds(parse_words(text, &now)?.timestamp()));
    };
    Some(seconds(civil.to_zoned(zone.clone()).ok()?.timestamp()))
}

/// Whether eight digits look like a day of this century or the last one, written without hyphens.
fn is_basic_date(text: &str) -> bool {
    let is_year = text.starts_with("19") || text.starts_with("20");
    is_year && text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The present time in seconds since the epoch.
pub(crate) fn now() -> f64 {
    seconds(Timestamp::now())
}

fn seconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: f64 = 1_699_995_759.5; // 2023-11-14 21:02:39 UTC

    fn utc(text: &str) -> Option<f64> {
        parse_when(text, NOW, &TimeZone::UTC)
    }

    #[test]
    fn durations_are_relative_to_now() {
        assert_eq!(utc("-8h"), Some(NOW - 28800.0));
        assert_eq!(utc("+30s"), Some(NOW + 30.0));
        assert_eq!(utc("now"), Some(NOW));
    }

    #[test]
    fn dates_are_local() {
        assert_eq!(utc("2023-11-14"), Some(1_699_920_000.0));
        assert_eq!(utc("2023-11-14 21:02"), Some(1_699_995_720.0));
        assert_eq!(utc("2023-11-14T21:02:39"), Some(1_699_995_759.0));
        assert_eq!(utc("2023-11-14T23:02:39+02:00"), Some(1_699_995_759.0));
        assert_eq!(utc("21:00"), Some(1_699_995_600.0));
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(parse_when("2023-11-14 23:02", NOW, &east), Some(1_699_995_720.0));
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(utc("tomorrow"), Some(1_700_006_400.0));
        assert_eq!(utc("in 10 minutes"), Some(NOW + 600.0));
    }

    #[test]
    fn bare_numbers_are_seconds_since_the_epoch() {
        assert_eq!(utc("1699995759.25"), Some(1_699_995_759.25));
        assert_eq!(utc("0"), Some(0.0));
    }

    #[test]
    fn eight_digits_are_a_date() {
        assert_eq!(utc("20231114"), utc("2023-11-14"));
        for text in ["20260231", "20261301", "20260000"] {
            assert_eq!(utc(text), None, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "soon", "-", "-8x", "-inf", "2023-13-01", "25:00", "inf", "nan"] {
            assert_eq!(utc(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_that_does_not_exist_is_refused() {
        for text in [
            "2026-02-31",
            "2026-02-31 10:00",
            "2026-02-31T10:00:00",
            "2026-02-31T10:00:00Z",
            "2026-02-31T10:00:00+02:00",
            "2026-02-29",
            "2026-04-31",
            "2026-02-28 24:00",
            "2026-02-28T24:00:00Z",
            "24:00",
        ] {
            assert_eq!(utc(text), None, "{text}");
        }
        assert_eq!(utc("2024-02-29"), Some(1_709_164_800.0));
    }

    #[test]
    fn a_time_that_the_clocks_skip_is_the_one_they_show() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |text: &str| parse_when(text, NOW, &zone);
        assert_eq!(at("2026-03-29 02:30"), at("2026-03-29 03:30"));
        assert_eq!(at("2026-10-25 02:30"), at("2026-10-25T02:30:00+02:00"));
    }

    proptest! {
        #[test]
        fn any_parsed_time_is_finite(
            text in ".{0,24}|[-+]?[0-9]{1,9}[smhd]?|[0-9]{1,2}:[0-9]{2}|in [0-9]{1,9} (days|hours)",
            now in any::<f64>().prop_filter("finite", |now| now.is_finite()),
        ) {
            if let Some(when) = parse_when(&text, now, &TimeZone::UTC) {
                prop_assert!(when.is_finite(), "{}", when);
            }
        }

        #[test]
        fn a_printed_time_parses_to_itself(seconds in 0..4_000_000_000i64) {
            let time = Timestamp::from_second(seconds).unwrap();
            prop_assert_eq!(utc(&time.to_string()), Some(seconds as f64));
            prop_assume!(!is_basic_date(&seconds.to_string()));
            prop_assert_eq!(utc(&seconds.to_string()), Some(seconds as f64));
            let civil = TimeZone::UTC.to_datetime(time).to_string();
            prop_assert_eq!(utc(&civil), Some(seconds as f64), "{}", civil);
        }
    }
}
