//! Slurm's time limits as text: `90`, `1-02:03:04`, `UNLIMITED`.

use super::constants::INFINITE;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Reads a time limit as Slurm's commands take it, in minutes; a part of a minute counts as a whole one.
///
/// The forms are `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`, `DAYS-HOURS`,
/// `DAYS-HOURS:MINUTES`, `DAYS-HOURS:MINUTES:SECONDS` and `DAYS-`. `UNLIMITED`, `INFINITE` and `-1` give
/// [`INFINITE`]. Returns `None` for anything else, and for a time that is too long for Slurm.
///
/// ```
/// use jobtap_core::slurm::{INFINITE, minutes_of};
///
/// assert_eq!(minutes_of("90"), Some(90));
/// assert_eq!(minutes_of("1-02:03:04"), Some(1564));
/// assert_eq!(minutes_of("unlimited"), Some(INFINITE));
/// assert_eq!(minutes_of("1h"), None);
/// ```
#[must_use]
pub fn minutes_of(text: &str) -> Option<u32> {
    if text == "-1" || ["unlimited", "infinite"].iter().any(|word| text.eq_ignore_ascii_case(word))
    {
        return Some(INFINITE);
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits)
    };
    let (days, clock) = match text.split_once('-') {
        Some((days, "")) => (Some(number(days)?), "0"),
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    // `1-` is a day.
    let clock = if days.is_some() && clock.is_empty() { "0" } else { clock };
    let parts: Option<Vec<u64>> = clock.split(':').map(number).collect();
    // With days the first number counts hours, without them minutes unless there are three.
    let (hours, minutes, seconds) = match (days.is_some(), parts?.as_slice()) {
        (true, [hours]) => (*hours, 0, 0),
        (true, [hours, minutes]) => (*hours, *minutes, 0),
        (false, [minutes]) => (0, *minutes, 0),
        (false, [minutes, seconds]) => (0, *minutes, *seconds),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let seconds = days
        .unwrap_or(0)
        .checked_mul(DAY)?
        .checked_add(hours.checked_mul(HOUR)?)?
        .checked_add(minutes.checked_mul(MINUTE)?)?
        .checked_add(seconds)?;
    u32::try_from(seconds.div_ceil(MINUTE)).ok().filter(|minutes| *minutes < INFINITE - 1)
}

/// Writes a time limit as Slurm's commands show it: `01:30:00`, `1-02:03:00`, `UNLIMITED`.
///
/// ```
/// use jobtap_core::slurm::{INFINITE, minutes_text};
///
/// assert_eq!(minutes_text(90), "01:30:00");
/// assert_eq!(minutes_text(1564), "1-02:04:00");
/// assert_eq!(minutes_text(INFINITE), "UNLIMITED");
/// ```
#[must_use]
pub fn minutes_text(minutes: u32) -> String {
    if minutes == INFINITE {
        return "UNLIMITED".to_owned();
    }
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        days => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_form_of_slurm() {
        for (text, minutes) in [
            ("0", 0),
            ("30", 30),
            ("30:00", 30),
            ("30:01", 31),
            ("1:00:00", 60),
            ("1-0", 1440),
            ("1-", 1440),
            ("1-", 1440),
            ("1-1", 1500),
            ("1-01:30", 1530),
            ("2-00:00:30", 2881),
            ("100:00:00", 6000),
            ("-1", INFINITE),
            ("Infinite", INFINITE),
        ] {
            assert_eq!(minutes_of(text), Some(minutes), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_time_limit() {
        for text in
            ["", "abc", "1h", "-5", " 5", "-", "1:2:3:4", "1-1:1:1:1", "1:", "+1", "1.5", "5 "]
        {
            assert_eq!(minutes_of(text), None, "{text}");
        }
        assert_eq!(minutes_of("99999999999999999999"), None);
        assert_eq!(minutes_of("4294967294"), None);
    }

    proptest! {
        #[test]
        fn a_written_time_limit_reads_the_same(minutes in 0..INFINITE - 1) {
            prop_assert_eq!(minutes_of(&minutes_text(minutes)), Some(minutes));
        }
    }
}
