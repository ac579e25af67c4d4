//! Urgency (RFC 30), which users ask for. Priority is what plugins compute from it; at the two ends of
//! the urgency scale the priority is fixed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The priority of a held job: it is never offered to the scheduler.
pub const PRIORITY_MIN: u32 = 0;

/// The priority of an expedited job: it comes before all others.
pub const PRIORITY_MAX: u32 = u32::MAX;

/// How urgent a job is for its user, from 0 to 31 (RFC 30).
///
/// Parsed from a number, or from `hold`, `default` or `expedite` in any case. Serialized as a number.
///
/// ```
/// use jobtap_core::job::Urgency;
///
/// assert_eq!("Hold".parse(), Ok(Urgency::HOLD));
/// assert_eq!("20".parse::<Urgency>()?.value(), 20);
/// # Ok::<(), jobtap_core::job::UrgencyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Urgency(u8);

impl Urgency {
    /// The job is held: it gets the lowest priority and no resources.
    pub const HOLD: Self = Self(0);
    /// The default, which is also the most that a guest may ask for at submission.
    pub const DEFAULT: Self = Self(16);
    /// The job gets the highest priority.
    pub const EXPEDITE: Self = Self(31);

    const NAMES: [(Self, &'static str); 3] =
        [(Self::HOLD, "hold"), (Self::DEFAULT, "default"), (Self::EXPEDITE, "expedite")];

    /// The urgency with this value.
    ///
    /// # Errors
    /// [`UrgencyError::OutOfRange`] unless the value is in 0..=31.
    pub fn new(value: i64) -> Result<Self, UrgencyError> {
        u8::try_from(value)
            .ok()
            .filter(|value| *value <= Self::EXPEDITE.0)
            .map(Self)
            .ok_or(UrgencyError::OutOfRange)
    }

    /// The value, 0..=31.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The fixed priority of [`HOLD`](Self::HOLD) and [`EXPEDITE`](Self::EXPEDITE), for which no plugin
    /// is called; `None` for any other urgency.
    #[must_use]
    pub const fn forced_priority(self) -> Option<u32> {
        match self {
            Self::HOLD => Some(PRIORITY_MIN),
            Self::EXPEDITE => Some(PRIORITY_MAX),
            _ => None,
        }
    }
}

impl Default for Urgency {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<i64> for Urgency {
    type Error = UrgencyError;

    fn try_from(value: i64) -> Result<Self, UrgencyError> {
        Self::new(value)
    }
}

impl From<Urgency> for u8 {
    fn from(urgency: Urgency) -> Self {
        urgency.0
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Urgency {
    type Err = UrgencyError;

    fn from_str(text: &str) -> Result<Self, UrgencyError> {
        let named = Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        match named {
            Some(&(urgency, _)) => Ok(urgency),
            None => Self::new(text.parse().map_err(|_| UrgencyError::Malformed(text.to_owned()))?),
        }
    }
}

/// Why a text or number is not an urgency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrgencyError {
    /// The number is not in 0..=31.
    #[error("urgency value is out of range")]
    OutOfRange,
    /// The text is neither a number nor a name.
    #[error("invalid urgency `{0}`: use 0 to 31, hold, default or expedite")]
    Malformed(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_case_insensitive() {
        for (text, value) in [("hold", 0), ("DEFAULT", 16), ("Expedite", 31)] {
            assert_eq!(text.parse::<Urgency>().unwrap().value(), value);
        }
        assert_eq!(Urgency::default(), Urgency::DEFAULT);
    }

    #[test]
    fn refuses_other_numbers_and_names() {
        for text in ["32", "-1", "256"] {
            assert_eq!(text.parse::<Urgency>(), Err(UrgencyError::OutOfRange));
            assert!(serde_json::from_str::<Urgency>(text).is_err(), "{text}");
        }
        for text in ["", "high", "1.5", " 1"] {
            let malformed = UrgencyError::Malformed(text.to_owned());
            assert_eq!(text.parse::<Urgency>(), Err(malformed));
        }
        assert!(serde_json::from_str::<Urgency>("\"hold\"").is_err());
    }

    #[test]
    fn only_the_ends_of_the_scale_fix_the_priority() {
        assert_eq!(Urgency::HOLD.forced_priority(), Some(0));
        assert_eq!(Urgency::EXPEDITE.forced_priority(), Some(4294967295));
        for value in 1..31 {
            assert_eq!(Urgency::new(value).unwrap().forced_priority(), None);
        }
    }

    proptest! {
        #[test]
        fn text_and_json_round_trip(value in 0..=31i64) {
            let urgency = Urgency::new(value).unwrap();
            prop_assert_eq!(urgency.to_string().parse(), Ok(urgency));
            let json = serde_json::to_string(&urgency).unwrap();
            prop_assert_eq!(serde_json::from_str::<Urgency>(&json).unwrap(), urgency);
        }

        #[test]
        fn text_is_parsed_or_quoted_in_the_error(text in "\\PC*|[-+]?[0-9]{1,3}|(?i)hold|expedite|default") {
            match text.parse::<Urgency>() {
                Ok(urgency) => prop_assert_eq!(urgency.to_string().parse(), Ok(urgency)),
                Err(UrgencyError::OutOfRange) => {
                    let number: i64 = text.parse().unwrap();
                    prop_assert!(!(0..=31).contains(&number));
                }
                Err(UrgencyError::Malformed(named)) => prop_assert_eq!(named, text),
            }
        }
    }
}
