//! The result of an inactive job (RFC 21).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::number_or_text::NumberOrText;
use super::state::spells;

/// How an inactive job came out. Names, numbers and serialized form work like those of a
/// [`State`](super::State).
///
/// ```
/// use jobtap_core::job::JobResult;
///
/// assert_eq!("timeout".parse(), Ok(JobResult::Timeout));
/// assert_eq!("TO".parse(), Ok(JobResult::Timeout));
/// assert_eq!(JobResult::Timeout.value(), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JobResult {
    /// The job finished with status 0.
    Completed = 1,
    /// The job finished with another status, or got a fatal exception.
    Failed = 2,
    /// The job was canceled.
    Canceled = 4,
    /// The job's time limit was reached.
    Timeout = 8,
}

impl JobResult {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Canceled, Self::Timeout];

    /// The number in messages and listings: one bit.
    #[must_use]
    pub const fn value(self) -> u8 {
        self as u8
    }

    /// The result with this number.
    #[must_use]
    pub fn from_value(value: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|result| u64::from(result.value()) == value)
    }

    /// The result of a job that a fatal exception of this type has ended.
    pub fn of_exception(kind: &str) -> Self {
        match kind {
            "cancel" => Self::Canceled,
            "timeout" => Self::Timeout,
            _ => Self::Failed,
        }
    }

    /// The name in upper case: `COMPLETED`.
    #[must_use]
    pub const fn long_name(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::Timeout => "TIMEOUT",
        }
    }

    /// The abbreviation: `CD`.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Completed => "CD",
            Self::Failed => "F",
            Self::Canceled => "CA",
            Self::Timeout => "TO",
        }
    }
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.long_name())
    }
}

impl FromStr for JobResult {
    type Err = UnknownResult;

    fn from_str(text: &str) -> Result<Self, UnknownResult> {
        Self::ALL
            .into_iter()
            .find(|result| spells(text, result.long_name()) || spells(text, result.short_name()))
            .ok_or_else(|| UnknownResult(text.to_owned()))
    }
}

impl Serialize for JobResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.value())
    }
}

impl<'de> Deserialize<'de> for JobResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scalar = NumberOrText::deserialize(deserializer)?;
        let result = match &scalar {
            NumberOrText::Unsigned(value) => Self::from_value(*value),
            NumberOrText::Text(text) => text.parse().ok(),
            _ => None,
        };
        result.ok_or_else(|| de::Error::custom(UnknownResult(scalar.to_string())))
    }
}

/// A text or number that no [`JobResult`] has (`EINVAL`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown job result `{0}`: use completed, failed, canceled, timeout or CD, F, CA, TO")]
pub struct UnknownResult(pub String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_result_has_a_number_and_four_spellings() {
        for (result, value, short, long) in [
            (JobResult::Completed, 1, "CD", "COMPLETED"),
            (JobResult::Failed, 2, "F", "FAILED"),
            (JobResult::Canceled, 4, "CA", "CANCELED"),
            (JobResult::Timeout, 8, "TO", "TIMEOUT"),
        ] {
            assert_eq!(JobResult::from_value(value), Some(result));
            assert_eq!(result.to_string(), long);
            assert_eq!(result.short_name(), short);
            for name in [short, long] {
                assert_eq!(name.parse(), Ok(result));
                assert_eq!(name.to_lowercase().parse(), Ok(result));
            }
        }
        assert!("Cd".parse::<JobResult>().is_err());
        assert_eq!(JobResult::from_value(3), None);
    }

    #[test]
    fn json_writes_numbers_and_reads_names_too() {
        for result in JobResult::ALL {
            let json = serde_json::to_string(&result).unwrap();
            assert_eq!(json, result.value().to_string());
            assert_eq!(serde_json::from_str::<JobResult>(&json).unwrap(), result);
        }
        assert_eq!(serde_json::from_str::<JobResult>("\"ca\"").unwrap(), JobResult::Canceled);
    }

    proptest! {
        #[test]
        fn other_text_is_not_a_result(
            text in prop_oneof!["\\PC*", "[a-zA-Z]{1,2}", prop::sample::select(JobResult::ALL.to_vec())
                .prop_map(|result| result.long_name().to_owned())],
        ) {
            let named = JobResult::ALL.into_iter().find(|result| {
                [result.long_name(), result.short_name()].iter().any(|name| {
                    *name == text || name.to_lowercase() == text
                })
            });
            prop_assert_eq!(text.parse::<JobResult>().ok(), named);
        }
    }
}
