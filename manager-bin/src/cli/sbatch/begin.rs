//! Points in time as Slurm's commands take them: `now+1hour`, `16:00`, `2030-01-20T12:34`, `tomorrow`.
//!
//! A time of day or a day without a year is the next one for `sbatch --begin`, and the last one for `sacct --starttime`.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::cli::common::when::parse_when;

/// Whether a time that isn't complete lies before or after now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Toward {
    Past,
    Future,
}

/// Reads a point in time, relative to `now`, in whole seconds since the epoch. Returns `None` if the text is not a time.
pub(in crate::cli) fn parse(text: &str, now: f64, zone: &TimeZone, toward: Toward) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let whole = |seconds: f64| (seconds >= 0.0).then(|| seconds.ceil() as u64);
    if text == "now" {
        return whole(now);
    }
    if let Some(delay) = text.strip_prefix("now+") {
        return whole(now + delay_of(delay)?);
    }
    if let Some(delay) = text.strip_prefix("now-") {
        return whole(now - delay_of(delay)?);
    }
    let here = Timestamp::from_second(now as i64).ok()?.to_zoned(zone.clone());
    if let Some(time) = time_of_day(&text) {
        let today = here.with().time(time).build().ok()?;
        let later = today.timestamp().as_second() as f64 >= now.floor();
        return seconds(&if later || toward == Toward::Past {
            today
        } else {
            today.checked_add(Span::new().days(1)).ok()?
        });
    }
    let (day, time) = match text.split_once(['t', ' ']) {
        // `tomorrow` and `today` begin with the letter that separates date and time.
        Some((day, time)) if !day.is_empty() => (day, time_of_day(time.trim())?),
        _ => (text.as_str(), Time::midnight()),
    };
    let six_digits = text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    match date_of(day, &here, toward) {
        Some(date) => seconds(&date.to_datetime(time).to_zoned(zone.clone()).ok()?),
        // Six digits are a date that doesn't exist, not seconds since the epoch.
        None if six_digits => None,
        None => whole(parse_when(&text, now, zone).filter(|_| !text.starts_with(['-', '+']))?),
    }
}

fn seconds(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_second()).ok()
}

/// The seconds of `3600`, `1hour`, `2days`.
fn delay_of(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let unit = match unit.trim() {
        "" | "second" | "seconds" => 1.0,
        "minute" | "minutes" => 60.0,
        "hour" | "hours" => 3600.0,
        "day" | "days" => 86_400.0,
        "week" | "weeks" => 604_800.0,
        _ => return None,
    };
    Some(f64::from(number.parse::<u32>().ok()?) * unit)
}

fn time_of_day(text: &str) -> Option<Time> {
    let hour = match text {
        "midnight" => 0,
        "noon" => 12,
        "fika" => 15,
        "teatime" => 16,
        _ => {
            let (clock, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
                (Some(clock), _) => (clock.trim(), Some(0)),
                (_, Some(clock)) => (clock.trim(), Some(12)),
                _ => (text, None),
            };
            let number = |text: &str| text.parse::<i8>().ok().filter(|number| *number >= 0);
            let parts: Option<Vec<i8>> = clock.split(':').map(number).collect();
            let (hour, minute, second) = match parts?.as_slice() {
                [hour, minute] => (*hour, *minute, 0),
                [hour, minute, second] => (*hour, *minute, *second),
                _ => return None,
            };
            let hour = match half {
                Some(_) if !(1..=12).contains(&hour) => return None,
                Some(half) => hour % 12 + half,
                None => hour,
            };
            return Time::new(hour, minute, second, 0).ok();
        }
    };
    Time::new(hour, 0, 0, 0).ok()
}

/// The date of `2030-01-20`, `012030`, `01/20/30`, `01/20`, `20.01.30`, `today`, `tomorrow`.
fn date_of(text: &str, now: &Zoned, toward: Toward) -> Option<Date> {
    match text {
        "today" => return Some(now.date()),
        "tomorrow" => return now.date().tomorrow().ok(),
        _ => {}
    }
    let numbers = |separator: char| -> Option<Vec<i16>> {
        let number = |text: &str| text.parse::<i16>().ok().filter(|number| *number >= 0);
        text.split(separator).map(number).collect()
    };
    let year_of = |year: i16| if year < 100 { 2000 + year } else { year };
    let day = |year: i16, month: i16, day: i16| {
        Date::new(year_of(year), i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
    };
    if text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let part = |at: usize| text.get(at..at + 2)?.parse::<i16>().ok();
        return day(part(4)?, part(0)?, part(2)?);
    }
    if let Some([year, month, of_month]) = numbers('-').as_deref() {
        return day(*year, *month, *of_month);
    }
    if let Some([of_month, month, year]) = numbers('.').as_deref() {
        return day(*year, *month, *of_month);
    }
    match numbers('/').as_deref() {
        Some([month, of_month, year]) => day(*year, *month, *of_month),
        // Without a year it is the next such day.
        Some([month, of_month]) => {
            let this = day(now.year(), *month, *of_month)?;
            if this < now.date() && toward == Toward::Future {
                day(now.year() + 1, *month, *of_month)
            } else {
                Some(this)
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_699_995_759.0; // 2023-11-14 21:02:39 UTC

    fn utc(text: &str) -> Option<u64> {
        parse(text, NOW, &TimeZone::UTC, Toward::Future)
    }

    #[test]
    fn reads_the_times_of_slurm() {
        let midnight = 1_699_920_000;
        let day = 86_400;
        for (text, time) in [
            ("now", 1_699_995_759),
            ("now+1hour", 1_699_999_359),
            ("now+60", 1_699_995_819),
            ("now+2days", 1_700_168_559),
            ("23:30", midnight + 84_600),
            // It has passed today.
            ("16:00", midnight + day + 57_600),
            ("4:00 PM", midnight + day + 57_600),
            ("noon", midnight + day + 43_200),
            ("tomorrow", midnight + day),
            ("today 23:00", midnight + 82_800),
            ("2023-12-01", midnight + 17 * day),
            ("2023-12-01T01:00:00", midnight + 17 * day + 3600),
            ("120123", midnight + 17 * day),
            ("12/01/23", midnight + 17 * day),
            ("12/01", midnight + 17 * day),
            ("01.12.23", midnight + 17 * day),
        ] {
            assert_eq!(utc(text), Some(time), "{text}");
        }
    }

    #[test]
    fn a_time_in_the_past_is_the_last_one() {
        let midnight = 1_699_920_000;
        let day = 86_400;
        for (text, time) in [
            ("16:00", midnight + 57_600),
            ("23:30", midnight + 84_600),
            ("now-1hour", 1_699_992_159),
            ("11/01", midnight - 13 * day),
        ] {
            assert_eq!(parse(text, NOW, &TimeZone::UTC, Toward::Past), Some(time), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in ["", "soon", "now+", "now+1fortnight", "25:00", "13:00 pm", "2023-13-01", "-1h"]
        {
            assert_eq!(utc(text), None, "{text}");
        }
    }

    #[test]
    fn refuses_a_day_that_does_not_exist() {
        for text in [
            "2026-02-31",
            "2026-02-31T10:00",
            "2026-02-31 10:00",
            "023126",
            "022926",
            "02/31/26",
            "2/31",
            "31.02.26",
            "feb 31",
            "24:00",
        ] {
            assert_eq!(utc(text), None, "{text}");
        }
        assert_eq!(utc("022924"), Some(1_709_164_800));
    }
}
