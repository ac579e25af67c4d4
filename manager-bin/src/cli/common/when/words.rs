//! Parses points in time in words: `tomorrow 10am`, `noon next monday`, `in 10 minutes`, `Jan 1 2030`.
//!
//! A text is a distance from now, or a day, a time of day, or both in either order. A day alone means its
//! midnight, a time alone is today.
//!
//! The crate `interim` isn't used: it doesn't accept a time before its day, `a year ago` and `now + 1h`, and
//! takes `10` for a year.

use jiff::civil::{Date, Time, Weekday, time};
use jiff::{SignedDuration, Span, Zoned};

/// Words that are ignored.
const FILLERS: [&str; 5] = ["at", "on", "this", "of", "the"];

const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The names of units, and their lengths in seconds.
const UNITS: [(&[&str], i64); 5] = [
    (&["s", "sec", "secs", "second", "seconds"], 1),
    (&["m", "min", "mins", "minute", "minutes"], 60),
    (&["h", "hr", "hrs", "hour", "hours"], 3600),
    (&["d", "day", "days"], 86400),
    (&["w", "wk", "week", "weeks"], 604_800),
];

/// Parses a point in time relative to `now`. Returns `None` if a word isn't understood.
pub(super) fn parse_words(text: &str, now: &Zoned) -> Option<Zoned> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty() && !FILLERS.contains(word))
        .collect();
    distance(&words, now).or_else(|| day_and_time(&words, now))
}

/// Parses `in 10 minutes`, `10 minutes`, `10m`, `an hour from now`, `2 hours ago`, `now + 1h`, `last week`.
fn distance(words: &[&str], now: &Zoned) -> Option<Zoned> {
    let (sign, amount) = match words {
        ["now", "+", amount @ ..] | ["in", amount @ ..] | [amount @ .., "from", "now"] => {
            (1, amount)
        }
        ["now", "-", amount @ ..] | [amount @ .., "ago"] => (-1, amount),
        ["next", unit] => return after(now, 1, unit),
        ["last", unit] => return after(now, -1, unit),
        amount => (1, amount),
    };
    let (count, unit) = match amount {
        ["a" | "an" | "one", unit] => ("1", *unit),
        [count, unit] => (*count, *unit),
        // `10m`
        [word] => word.split_at_checked(word.find(|c: char| !c.is_ascii_digit())?)?,
        _ => return None,
    };
    after(now, sign * i64::from(count.parse::<u32>().ok()?), unit)
}

/// Returns the time `count` units from now. Months and years are those of the calendar.
fn after(now: &Zoned, count: i64, unit: &str) -> Option<Zoned> {
    let span = match unit {
        "month" | "months" => Span::new().try_months(count),
        "y" | "yr" | "yrs" | "year" | "years" => Span::new().try_years(count),
        _ => {
            let (_, seconds) = UNITS.iter().find(|(names, _)| names.contains(&unit))?;
            return now.checked_add(SignedDuration::from_secs(count * seconds)).ok();
        }
    };
    now.checked_add(span.ok()?).ok()
}

fn day_and_time(words: &[&str], now: &Zoned) -> Option<Zoned> {
    let (mut day, mut at) = (None, None);
    let mut rest = words;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == "next" {
            // Ignored: the name of a day of the week always means the next such day.
        } else if let (None, Some(found)) = (at, time_of_day(first)) {
            at = Some(found);
        } else if let (None, Some(found)) = (day, named_day(first, now)) {
            day = Some(found);
        } else if let (None, Some((found, after))) = (day, day_of_month(first, after, now)) {
            (day, rest) = (Some(found), after);
        } else {
            return None;
        }
    }
    if day.is_none() && at.is_none() {
        return None;
    }
    let day = day.unwrap_or_else(|| now.date());
    day.to_datetime(at.unwrap_or(Time::midnight())).to_zoned(now.time_zone().clone()).ok()
}

/// Parses `noon`, `10am`, `10:30pm`, `8:00`, `22:30`.
fn time_of_day(word: &str) -> Option<Time> {
    match word {
        "noon" => return Some(time(12, 0, 0, 0)),
        "midnight" => return Some(Time::midnight()),
        _ => {}
    }
    let half = |suffix: &str, offset: i8| Some((word.strip_suffix(suffix)?, offset));
    let Some((clock, offset)) = half("am", 0).or_else(|| half("pm", 12)) else {
        // jiff requires two digits for the hour.
        let padded = if word.find(':')? == 1 { format!("0{word}") } else { word.to_owned() };
        return padded.parse().ok();
    };
    let mut parts = clock.split(':').map(str::parse::<i8>);
    // 12am is hour 0, and 12pm is hour 12.
    let hour = parts.next()?.ok().filter(|hour| (1..=12).contains(hour))? % 12 + offset;
    let minute = parts.next().unwrap_or(Ok(0)).ok()?;
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

/// Parses `today`, `tomorrow`, a day of the week (the next one after today), `2030-01-31`, `1/31/2030`.
fn named_day(word: &str, now: &Zoned) -> Option<Date> {
    let today = now.date();
    match word {
        "today" => return Some(today),
        "tomorrow" => return today.tomorrow().ok(),
        "yesterday" => return today.yesterday().ok(),
        _ => {}
    }
    if let Some((_, weekday)) = DAYS.iter().find(|(name, _)| abbreviates(word, name)) {
        return today.nth_weekday(1, *weekday).ok();
    }
    if let [first, second, third] = word.split('/').collect::<Vec<_>>().as_slice() {
        // The year has four digits where it comes first.
        let (year, month, day) = match first.len() {
            4 => (first, second, third),
            _ => (third, first, second),
        };
        let century = if year.len() == 2 { 2000 } else { 0 };
        let year = century + year.parse::<i16>().ok()?;
        return Date::new(year, month.parse().ok()?, day.parse().ok()?).ok();
    }
    word.parse().ok()
}

/// Parses `jan 31` or `31 jan`, with a year or as the next such day. Returns the day and the words after it.
fn day_of_month<'a, 'b>(
    first: &str,
    rest: &'b [&'a str],
    now: &Zoned,
) -> Option<(Date, &'b [&'a str])> {
    let (second, rest) = rest.split_first()?;
    let (month, day) = match (month(first), month(second)) {
        (Some(month), _) => (month, *second),
        (None, Some(month)) => (month, first),
        (None, None) => return None,
    };
    let day = ["st", "nd", "rd", "th"].iter().find_map(|end| day.strip_suffix(end)).unwrap_or(day);
    let day = day.parse().ok()?;
    let year = rest.first().filter(|word| word.len() == 4).and_then(|word| word.parse().ok());
    if let Some(year) = year {
        return Some((Date::new(year, month, day).ok()?, rest.get(1..)?));
    }
    let today = now.date();
    let found = Date::new(today.year(), month, day).ok()?;
    // 29 February doesn't exist in the year after a leap year.
    let next = || Date::new(today.year().checked_add(1)?, month, day).ok();
    Some((if found < today { next()? } else { found }, rest))
}

fn month(word: &str) -> Option<i8> {
    (1..).zip(MONTHS).find_map(|(number, name)| abbreviates(word, name).then_some(number))
}

/// Returns true if `word` abbreviates `name` to at least three letters.
fn abbreviates(word: &str, name: &str) -> bool {
    word.len() >= 3 && name.starts_with(word)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    /// Parses the words on Tuesday, 14 November 2023, 21:02:39.
    fn parsed(text: &str) -> Option<String> {
        let now = date(2023, 11, 14).at(21, 2, 39, 0).to_zoned(TimeZone::UTC).unwrap();
        parse_words(text, &now).map(|time| time.strftime("%F %T").to_string())
    }

    #[test]
    fn day_and_time_are_accepted_in_either_order() {
        for (text, expected) in [
            ("tomorrow", "2023-11-15 00:00:00"),
            ("8:00 tomorrow", "2023-11-15 08:00:00"),
            ("noon next monday", "2023-11-20 12:00:00"),
            ("noon tomorrow", "2023-11-15 12:00:00"),
            ("Tomorrow at 5:30pm", "2023-11-15 17:30:00"),
            ("next monday", "2023-11-20 00:00:00"),
            ("tue 8am", "2023-11-21 08:00:00"),
            ("midnight", "2023-11-14 00:00:00"),
            ("12am today", "2023-11-14 00:00:00"),
            ("Jan 1 2030 10:00", "2030-01-01 10:00:00"),
            ("1 January 2030", "2030-01-01 00:00:00"),
            ("jan 2nd, 9pm", "2024-01-02 21:00:00"),
            ("dec 24", "2023-12-24 00:00:00"),
            ("2030-01-31 10pm", "2030-01-31 22:00:00"),
            ("1/31/2030", "2030-01-31 00:00:00"),
            ("01/31/30", "2030-01-31 00:00:00"),
            ("2030/01/31", "2030-01-31 00:00:00"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_day_that_does_not_exist_is_refused() {
        for text in [
            "feb 31",
            "31 february 2026",
            "Feb 29 2026 10am",
            "2/31/2026",
            "2026/02/31",
            "2026-02-31 10pm",
            "apr 31st",
            "feb 29",
            "24:00",
            "tomorrow 24:00",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert_eq!(parsed("feb 29 2024").as_deref(), Some("2024-02-29 00:00:00"));
        let march = date(2024, 3, 1).at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap();
        assert!(parse_words("feb 29", &march).is_none(), "the next February has 28 days");
    }

    #[test]
    fn distances_are_relative_to_now() {
        for (text, expected) in [
            ("in 10 minutes", "2023-11-14 21:12:39"),
            ("an hour from now", "2023-11-14 22:02:39"),
            ("2 days ago", "2023-11-12 21:02:39"),
            ("3 weeks", "2023-12-05 21:02:39"),
            ("10m ago", "2023-11-14 20:52:39"),
            ("a year ago", "2022-11-14 21:02:39"),
            ("in 3 months", "2024-02-14 21:02:39"),
            ("now + 1h", "2023-11-14 22:02:39"),
            ("now - 90 minutes", "2023-11-14 19:32:39"),
            ("last week", "2023-11-07 21:02:39"),
            ("next month", "2023-12-14 21:02:39"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "soon",
            "nonsense",
            "at",
            "13pm",
            "tomorrow today",
            "10",
            "jan",
            "jan 40",
            "in 4000000000 weeks",
            "in 4000000000 years",
            "10x",
            "next",
            "now +",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn fillers_case_and_spaces_are_ignored(
            text in "[a-z0-9:/, -]{0,24}|(in )?[0-9]{1,3} (days|hours)|(mon|friday) [0-9]{1,2}(am|pm)",
        ) {
            let same = format!("  the {} ", text.to_uppercase().replace(' ', "  "));
            prop_assert_eq!(parsed(&same), parsed(&text));
        }
    }
}
