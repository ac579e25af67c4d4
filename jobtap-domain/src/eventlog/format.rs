//! Formats eventlogs for people and scripts. The form of a time may depend on earlier lines, so a formatter has state
//! and must be used for only one eventlog.

use std::fmt::Write;
use std::str::FromStr;

use super::EventEntry;
use crate::job::Timestamp;

/// The format of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryFormat {
    /// `TIME NAME KEY=VALUE…`
    #[default]
    Text,
    /// The JSON of the entry as in the eventlog, regardless of the time format.
    Json,
}

impl FromStr for EntryFormat {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        match name.to_ascii_lowercase().as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(FormatError::Entry(name.to_owned())),
        }
    }
}

/// The format of an entry's time in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeFormat {
    /// Seconds since the UNIX epoch: `1699995759.537775`.
    #[default]
    Raw,
    /// ISO 8601: `2023-11-14T21:02:39.537774Z`.
    Iso,
    /// Seconds since the first entry: `0.022011`.
    Offset,
    /// The date and the minute for the first entry of a minute, `[Nov14 21:02]`, and the seconds since then
    /// for the following entries, `[  +0.022011]`.
    Human,
}

impl FromStr for TimeFormat {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        match name.to_ascii_lowercase().as_str() {
            "raw" => Ok(Self::Raw),
            "iso" => Ok(Self::Iso),
            "offset" => Ok(Self::Offset),
            "human" | "reltime" => Ok(Self::Human),
            _ => Err(FormatError::Time(name.to_owned())),
        }
    }
}

/// Why a text is not the name of a format (`EINVAL`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is not an [`EntryFormat`].
    #[error("invalid format type `{0}`: use text or json")]
    Entry(String),
    /// The text is not a [`TimeFormat`].
    #[error("invalid time-format type `{0}`: use raw, iso, offset or human")]
    Time(String),
}

/// The time zone of the reader, also implemented by closures from a time to its UTC offset.
pub trait Zone {
    /// Local time minus UTC at `at`, in seconds.
    fn utc_offset(&self, at: Timestamp) -> i32;
}

impl<F: Fn(Timestamp) -> i32> Zone for F {
    fn utc_offset(&self, at: Timestamp) -> i32 {
        self(at)
    }
}

/// UTC as a [`Zone`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Utc;

impl Zone for Utc {
    fn utc_offset(&self, _at: Timestamp) -> i32 {
        0
    }
}

/// The formatted time of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeText {
    /// The text.
    pub text: String,
    /// Whether the entry is the first one of a minute in [`TimeFormat::Human`], which tools highlight.
    pub dated: bool,
}

/// Formats the entries of one eventlog, in order.
///
/// ```
/// use jobtap_core::eventlog::format::{EntryFormat, Formatter, TimeFormat, Utc};
/// use jobtap_core::eventlog::decode_log;
///
/// let log = "{\"timestamp\":5.0,\"name\":\"a\",\"context\":{\"x\":\"y\"}}\n\
///            {\"timestamp\":5.5,\"name\":\"b\"}\n";
/// let mut formatter = Formatter::new(EntryFormat::Text, TimeFormat::Offset, Utc);
/// let lines: Vec<_> = decode_log(log)?.iter().map(|entry| formatter.format(entry)).collect();
/// assert_eq!(lines, ["0.000000 a x=\"y\"", "0.500000 b"]);
/// # Ok::<(), jobtap_core::eventlog::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Formatter<Z> {
    entry: EntryFormat,
    time: TimeFormat,
    zone: Z,
    first: Option<Timestamp>,
    dated: Option<Timestamp>,
}

impl<Z: Zone> Formatter<Z> {
    /// A formatter for one eventlog, which shows times in `zone`.
    pub fn new(entry: EntryFormat, time: TimeFormat, zone: Z) -> Self {
        Self { entry, time, zone, first: None, dated: None }
    }

    /// Formats the next entry as a line without newline.
    pub fn format(&mut self, entry: &EventEntry) -> String {
        match self.entry {
            EntryFormat::Json => entry.to_string(),
            EntryFormat::Text => {
                let mut line = self.time(entry).text;
                line.push(' ');
                line.push_str(&entry.name);
                for (key, value) in entry.context.iter().flatten() {
                    // Writing to a string can't fail.
                    let _ = write!(line, " {key}={value}");
                }
                line
            }
        }
    }

    /// Formats the time of the next entry only, for tools with their own line layout.
    pub fn time(&mut self, entry: &EventEntry) -> TimeText {
        let at = entry.timestamp;
        let first = *self.first.get_or_insert(at);
        let text = match self.time {
            TimeFormat::Raw => format!("{:.6}", at.as_secs()),
            TimeFormat::Offset => format!("{:.6}", at - first),
            TimeFormat::Iso => self.local(at).iso(),
            TimeFormat::Human => return self.human(at),
        };
        TimeText { text, dated: false }
    }

    fn human(&mut self, at: Timestamp) -> TimeText {
        let local = self.local(at);
        match self.dated {
            Some(dated) if self.local(dated).same_minute(&local) => {
                TimeText { text: format!("[{:+11.6}]", at - dated), dated: false }
            }
            _ => {
                self.dated = Some(at);
                TimeText { text: local.minute(), dated: true }
            }
        }
    }

    fn local(&self, at: Timestamp) -> LocalTime {
        LocalTime::new(at, self.zone.utc_offset(at))
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time in the time zone of the reader.
struct LocalTime {
    /// Whole seconds since 1970 in local time.
    secs: i64,
    micros: u32,
    utc_offset: i32,
}

impl LocalTime {
    fn new(at: Timestamp, utc_offset: i32) -> Self {
        let whole = at.as_secs().floor();
        // Like Flux, this truncates to microseconds. But most times are whole microseconds, whose floating point number
        // may be slightly too low: those are rounded.
        let exact = (at.as_secs() * 1e6).round() / 1e6 == at.as_secs();
        let micros = (at.as_secs() - whole) * 1e6;
        Self {
            secs: (whole as i64).saturating_add(utc_offset.into()),
            // For a time just before 1970 the fraction may be rounded up to a whole second.
            micros: (if exact { micros.round() } else { micros } as u32).min(999_999),
            utc_offset,
        }
    }

    fn same_minute(&self, other: &Self) -> bool {
        self.secs.div_euclid(60) == other.secs.div_euclid(60)
    }

    /// Hour, minute and second of the day.
    fn clock(&self) -> (i64, i64, i64) {
        let secs = self.secs.rem_euclid(86400);
        (secs / 3600, secs / 60 % 60, secs % 60)
    }

    /// Year, month (1..=12) and day (1..=31) in the Gregorian calendar.
    fn date(&self) -> (i64, i64, i64) {
        // Days are counted from 1 March of the year 0, so that a leap day is the last day of its year and
        // each period of 400 years has the same number of days.
        let days = self.secs.div_euclid(86400) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March on, each group of five months has 153 days.
        let months_since_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
        let month = (months_since_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        (year, month, day)
    }

    fn iso(&self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second) = self.clock();
        let mut text = format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}",
            self.micros
        );
        if self.utc_offset == 0 {
            text.push('Z');
        } else {
            let sign = if self.utc_offset < 0 { '-' } else { '+' };
            let minutes = self.utc_offset.unsigned_abs() / 60;
            // Writing to a string can't fail.
            let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        text
    }

    fn minute(&self) -> String {
        let (_, month, day) = self.date();
        let (hour, minute, _) = self.clock();
        let month =
            usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"");
        format!("[{month}{day:02} {hour:02}:{minute:02}]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TIMES: [f64; 3] = [1699995759.5377746, 1699995759.5597851, 1700074161.0240808];

    const NUMBER: prop::num::f64::Any = prop::num::f64::ANY;

    fn event(secs: f64) -> EventEntry {
        EventEntry::new(Timestamp(secs), "a", None)
    }

    fn shown(format: &str, zone: impl Zone, times: &[f64]) -> Vec<String> {
        let mut formatter = Formatter::new(EntryFormat::Text, format.parse().unwrap(), zone);
        let time = |&secs: &f64| formatter.time(&event(secs)).text;
        times.iter().map(time).collect()
    }

    #[test]
    fn formats_times_like_flux() {
        let raw = ["1699995759.537775", "1699995759.559785", "1700074161.024081"];
        assert_eq!(shown("raw", Utc, &TIMES), raw);
        let offset = ["0.000000", "0.022011", "78401.486306"];
        assert_eq!(shown("offset", Utc, &TIMES), offset);
        let human = ["[Nov14 21:02]", "[  +0.022011]", "[Nov15 18:49]"];
        assert_eq!(shown("human", Utc, &TIMES), human);
        assert_eq!(shown("reltime", Utc, &TIMES), human);
        let iso = [
            "2023-11-14T21:02:39.537774Z",
            "2023-11-14T21:02:39.559785Z",
            "2023-11-15T18:49:21.024080Z",
        ];
        assert_eq!(shown("iso", Utc, &TIMES), iso);
    }

    /// Half of these numbers are slightly less than the microsecond that they stand for.
    #[test]
    fn iso_shows_each_whole_microsecond() {
        for micros in 0..1000 {
            let text = shown("iso", Utc, &[1_700_000_000.0 + f64::from(micros) / 1e6]);
            assert_eq!(text, [format!("2023-11-14T22:13:20.{micros:06}Z")]);
        }
        assert_eq!(shown("iso", Utc, &[1_700_000_000.999_999]), ["2023-11-14T22:13:20.999999Z"]);
    }

    #[test]
    fn iso_shows_the_zone() {
        for (zone, text) in [
            (3600, "2023-11-14T22:02:39.537774+01:00"),
            (-(9 * 3600 + 1800), "2023-11-14T11:32:39.537774-09:30"),
            (5 * 3600 + 1800, "2023-11-15T02:32:39.537774+05:30"),
        ] {
            assert_eq!(shown("iso", move |_| zone, &TIMES[..1]), [text]);
        }
    }

    #[test]
    fn the_zone_may_change_within_a_log() {
        let zone = |at: Timestamp| if at < Timestamp(3600.0) { 0 } else { 3600 };
        let human = ["[Jan01 00:59]", "[Jan01 02:00]"];
        assert_eq!(shown("human", zone, &[3599.0, 3600.0]), human);
    }

    #[test]
    fn human_counts_from_the_first_entry_of_a_minute() {
        let times = [60.0, 61.5, 119.0, 120.25, 121.0, 60.5];
        let human = [
            "[Jan01 00:01]",
            "[  +1.500000]",
            "[ +59.000000]",
            "[Jan01 00:02]",
            "[  +0.750000]",
            "[Jan01 00:01]",
        ];
        assert_eq!(shown("human", Utc, &times), human);
        let mut formatter = Formatter::new(EntryFormat::Text, TimeFormat::Human, Utc);
        assert!(formatter.time(&event(60.0)).dated);
        assert!(!formatter.time(&event(61.0)).dated);
    }

    #[test]
    fn the_calendar_knows_leap_years() {
        for (secs, date) in [
            (0.0, "1970-01-01T00:00:00.000000Z"),
            (-1e-20, "1969-12-31T23:59:59.999999Z"),
            (-1.5, "1969-12-31T23:59:58.500000Z"),
            (951782400.0, "2000-02-29T00:00:00.000000Z"),
            (951868800.0, "2000-03-01T00:00:00.000000Z"),
            (1709164800.0, "2024-02-29T00:00:00.000000Z"),
            (4107542399.0, "2100-02-28T23:59:59.000000Z"),
            (4107542400.0, "2100-03-01T00:00:00.000000Z"),
            (1735689599.0, "2024-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(shown("iso", Utc, &[secs]), [date]);
        }
    }

    #[test]
    fn text_shows_the_context_as_compact_json() {
        let context =
            json!({"type": "cancel", "severity": 0, "note": "", "more": {"a": [1, null]}});
        let entry = EventEntry::new(
            Timestamp(1700000000.123456),
            "exception",
            context.as_object().cloned(),
        );
        let mut formatter = Formatter::new(EntryFormat::Text, TimeFormat::Raw, Utc);
        assert_eq!(
            formatter.format(&entry),
            r#"1700000000.123456 exception type="cancel" severity=0 note="" more={"a":[1,null]}"#
        );
        assert_eq!(formatter.format(&event(1.0)), "1.000000 a");
        let empty = EventEntry::new(Timestamp(1.0), "a", Some(serde_json::Map::new()));
        assert_eq!(formatter.format(&empty), "1.000000 a");
    }

    #[test]
    fn json_is_the_entry_itself() {
        let mut formatter = Formatter::new(EntryFormat::Json, TimeFormat::Human, Utc);
        let line = r#"{"timestamp":5.5,"name":"a"}"#;
        assert_eq!(formatter.format(&event(5.5)), line);
    }

    #[test]
    fn format_names_are_case_insensitive() {
        assert_eq!("JSON".parse(), Ok(EntryFormat::Json));
        assert_eq!("Human".parse(), Ok(TimeFormat::Human));
        assert!("xml".parse::<EntryFormat>().is_err());
        assert!("".parse::<TimeFormat>().is_err());
    }

    proptest! {
        #[test]
        fn formats_any_time(first in NUMBER, second in NUMBER, offset: i32) {
            for format in ["raw", "iso", "offset", "human"] {
                prop_assert_eq!(shown(format, |_| offset, &[first, second]).len(), 2);
            }
        }

        #[test]
        fn consecutive_days_have_consecutive_dates(day in -1_000_000..1_000_000i64) {
            let date = |day: i64| {
                LocalTime { secs: day * 86400, micros: 0, utc_offset: 0 }.date()
            };
            let (year, month, mday) = date(day);
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&mday));
            let next = date(day + 1);
            prop_assert!(
                next == (year, month, mday + 1)
                    || next == (year, month + 1, 1)
                    || next == (year + 1, 1, 1) && (month, mday) == (12, 31)
            );
        }
    }
}
