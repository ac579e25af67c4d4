//! Parses the values of options: counts, time limits, signals, begin times, sets of tasks and `{cc}`.

use jiff::tz::TimeZone;
use jobtap_core::job::{Fsd, Signal};
use jobtap_core::jobspec::Dependency;
use serde_json::{Value, json};

use super::error::{ArgError, SignalFault};
use crate::cli::common::format::{FieldValue, formatted};
use crate::cli::common::when::parse_when;

/// Parses a count. A negative count becomes 0, since the builder's error for 0 is that of Flux for both.
///
/// # Errors
/// [`ArgError::Int`] if the text isn't an integer.
pub(crate) fn count(option: &'static str, text: Option<&str>) -> Result<Option<u64>, ArgError> {
    let Some(text) = text else { return Ok(None) };
    match text.trim().parse::<i64>() {
        Ok(count) => Ok(Some(u64::try_from(count).unwrap_or(0))),
        Err(_) => Err(ArgError::Int { option, value: text.to_owned() }),
    }
}

/// Parses a time limit and returns it in seconds. A number without a unit is in minutes.
///
/// # Errors
/// [`ArgError`] if the text isn't a duration, or if the duration is negative or infinite.
pub(crate) fn time_limit(text: &str) -> Result<f64, ArgError> {
    const MINUTE: f64 = 60.0;
    // `f64` accepts a leading `+`, which Flux refuses.
    let minutes = text.trim().parse::<f64>().ok().filter(|_| !text.starts_with('+'));
    let limit = match minutes {
        Some(minutes) if minutes < 0.0 => return Err(ArgError::NegativeDuration),
        // Flux accepts NaN as a number and refuses it for its value.
        Some(minutes) if minutes.is_nan() => return Err(ArgError::InfiniteDuration),
        Some(minutes) if minutes.is_finite() => Fsd::from_secs(minutes * MINUTE),
        _ => one_line(text).parse::<Fsd>(),
    };
    let seconds = limit.map_err(|_| ArgError::Duration)?.as_secs();
    if seconds.is_finite() { Ok(seconds) } else { Err(ArgError::InfiniteDuration) }
}

/// A value without the end of its line, which values of several lines in directives have.
fn one_line(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// Parses `[SIG][@TIME]` and returns the job shell option for it: the signal that warns the tasks, and how
/// long before the expiration of the job it is sent.
///
/// # Errors
/// [`ArgError::Signal`] if the signal or the time is invalid.
pub(crate) fn warning(option: &str) -> Result<Value, ArgError> {
    let refused = |fault| ArgError::Signal { option: option.to_owned(), fault };
    let (signal, time) = one_line(option).split_once('@').unwrap_or((one_line(option), ""));
    let name = if signal.is_empty() { "SIGUSR1" } else { signal };
    if name.parse::<i64>().is_ok_and(|number| number <= 0) {
        return Err(refused(SignalFault::NotPositive));
    }
    // `Signal` also knows the names in lower case, which Flux refuses here.
    let capital = !name.contains(|c: char| c.is_ascii_lowercase());
    let known = name.parse::<Signal>().ok().filter(|_| capital);
    let known = known.ok_or_else(|| refused(SignalFault::Unknown(signal.to_owned())))?;
    let signum = known.number();
    let timeleft = if time.is_empty() { "60" } else { time };
    let timeleft = timeleft.parse::<Fsd>().map_err(|_| refused(SignalFault::Time))?;
    Ok(json!({ "signum": signum, "timeleft": timeleft.as_secs() }))
}

/// Parses `SCHEME[:VALUE]` and returns the job shell option for it. The scheme itself is checked when the job
/// starts, as in Flux, where plugins of the job shell can add schemes.
///
/// # Errors
/// [`ArgError::Taskmap`] if the text has no scheme.
pub(crate) fn taskmap(text: &str) -> Result<Value, ArgError> {
    let (scheme, value) = text.split_once(':').unwrap_or((text, ""));
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    if !is_scheme {
        return Err(ArgError::Taskmap(text.to_owned()));
    }
    Ok(json!({ "scheme": scheme.to_lowercase(), "value": value }))
}

/// The dependency on a begin time, which is given in one of the forms of [`parse_when`]. As in Flux, a number is a time
/// of day, not a time since the epoch.
///
/// # Errors
/// [`ArgError::Datetime`] if the text isn't a time, [`ArgError::Duration`] if such a text begins with `+` or `-`.
pub(crate) fn begin_time(text: &str, now: f64) -> Result<Dependency, ArgError> {
    let signed = text.trim_start().starts_with(['+', '-']);
    let invalid = || match signed {
        true => ArgError::Duration,
        false => ArgError::Datetime(text.to_owned()),
    };
    let epoch = match text.trim().parse::<f64>() {
        Ok(_) if !signed => {
            let time = time_of_day(text.trim()).ok_or_else(invalid)?;
            parse_when(&time, now, &TimeZone::system())
        }
        _ => parse_when(text, now, &TimeZone::system()),
    };
    let epoch = epoch.filter(|epoch| *epoch >= 0.0);
    // Always with a decimal point, as Flux writes it.
    let value = format!("{:?}", epoch.ok_or_else(invalid)?);
    Ok(Dependency { scheme: "begin-time".to_owned(), value, options: Default::default() })
}

/// Writes three to six digits, such as `930` or `203015`, as hours, minutes and seconds with colons.
fn time_of_day(digits: &str) -> Option<String> {
    let valid = (3..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    // An even number of digits: `930` is `09:30`.
    let padded = format!("{}{digits}", if digits.len().is_multiple_of(2) { "" } else { "0" });
    let part = |at| padded.get(at..at + 2);
    let parts: Vec<&str> = [0, 2, 4].into_iter().map_while(part).collect();
    valid.then(|| parts.join(":"))
}

/// Returns true if the argument of `--input` names tasks instead of a file.
pub(crate) fn is_task_set(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text == "all"
        || inner.split(',').all(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().is_ok() && last.parse::<u32>().is_ok()
        })
}

/// Replaces `{cc}` by the id, and `{cc:04d}` by the id in that format. `{{...}}` remains, since the job shell
/// replaces it, and so does what isn't a format of a number.
pub(crate) fn substitute_cc(text: &str, id: u32) -> String {
    const MARK: &str = "{cc";
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        done.push_str(before);
        let field = after.split_once('}').filter(|_| !before.ends_with('{'));
        let value = |spec: &str| {
            let spec = if spec.is_empty() { spec } else { spec.strip_prefix(':')? };
            formatted(&FieldValue::Int(id.into()), spec).ok()
        };
        match field.and_then(|(spec, tail)| Some((value(spec)?, tail))) {
            Some((value, tail)) => {
                done.push_str(&value);
                rest = tail;
            }
            None => {
                done.push_str(MARK);
                rest = after;
            }
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_time_of_day() {
        let cases = [("930", "09:30"), ("2030", "20:30"), ("12345", "01:23:45")];
        for (digits, time) in cases.into_iter().chain([("202612", "20:26:12")]) {
            assert_eq!(time_of_day(digits).as_deref(), Some(time));
        }
        for other in ["0", "12", "1234567", "12.5", "1e30", "0x10"] {
            assert_eq!(time_of_day(other), None, "{other}");
        }
    }

    #[test]
    fn ids_of_copies_can_have_a_format() {
        assert_eq!(substitute_cc("a{cc}b{cc}", 7), "a7b7");
        assert_eq!(substitute_cc("{cc:03d}.{cc:>3}", 7), "007.  7");
        for kept in ["{{cc}}", "{cc", "{cc:y}", "{ccx}", "{id}"] {
            assert_eq!(substitute_cc(kept, 7), kept);
        }
    }
}
