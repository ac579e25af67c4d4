//! The states of a job (RFC 21), with their names and numbers in user interfaces and eventlogs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::number_or_text::NumberOrText;

/// The state of a job. States are ordered as a job passes through them, and each number is one bit,
/// so that a [`StateSet`](super::StateSet) can hold several.
///
/// Parsed from the long or short name in upper or lower case, deserialized from a name or a number.
/// Serialized as a number and displayed as the long name.
///
/// ```
/// use jobtap_core::job::State;
///
/// assert_eq!("sched".parse(), Ok(State::Sched));
/// assert_eq!("S".parse(), Ok(State::Sched));
/// assert_eq!(State::Sched.value(), 8);
/// assert!(State::Sched < State::Run);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Submitted, not yet validated.
    New = 1,
    /// Waiting for its dependencies.
    Depend = 2,
    /// Waiting for a priority.
    Priority = 4,
    /// Waiting for resources.
    Sched = 8,
    /// Has resources; its tasks start, run or end.
    Run = 16,
    /// Its resources are being released.
    Cleanup = 32,
    /// The last state. Its eventlog gets no more events.
    Inactive = 64,
}

impl State {
    /// All states, in the order in which a job passes through them.
    pub const ALL: [Self; 7] = [
        Self::New,
        Self::Depend,
        Self::Priority,
        Self::Sched,
        Self::Run,
        Self::Cleanup,
        Self::Inactive,
    ];

    /// The number in messages and listings: one bit.
    #[must_use]
    pub const fn value(self) -> u8 {
        self as u8
    }

    /// The state with this number.
    #[must_use]
    pub fn from_value(value: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| u64::from(state.value()) == value)
    }

    /// The name in upper case: `SCHED`.
    #[must_use]
    pub const fn long_name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Depend => "DEPEND",
            Self::Priority => "PRIORITY",
            Self::Sched => "SCHED",
            Self::Run => "RUN",
            Self::Cleanup => "CLEANUP",
            Self::Inactive => "INACTIVE",
        }
    }

    /// Whether a job in this state has resources: RUN or CLEANUP, the virtual state RUNNING of RFC 21.
    ///
    /// ```
    /// use jobtap_core::job::State;
    ///
    /// assert!(State::Cleanup.is_running() && !State::Sched.is_running());
    /// ```
    #[must_use]
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Run | Self::Cleanup)
    }

    /// The letter: `S`.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::New => "N",
            Self::Depend => "D",
            Self::Priority => "P",
            Self::Sched => "S",
            Self::Run => "R",
            Self::Cleanup => "C",
            Self::Inactive => "I",
        }
    }
}

/// Whether `text` is `name`, which is in upper case, written all in upper or all in lower case.
pub(super) fn spells(text: &str, name: &str) -> bool {
    text == name
        || (text.eq_ignore_ascii_case(name) && !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.long_name())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| spells(text, state.long_name()) || spells(text, state.short_name()))
            .ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.value())
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scalar = NumberOrText::deserialize(deserializer)?;
        let state = match &scalar {
            NumberOrText::Unsigned(value) => Self::from_value(*value),
            NumberOrText::Text(text) => text.parse().ok(),
            _ => None,
        };
        state.ok_or_else(|| de::Error::custom(UnknownState(scalar.to_string())))
    }
}

/// A text or number that no [`State`] has (`EINVAL`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown job state `{0}`: use new, depend, priority, sched, run, cleanup, inactive \
     or the first letter"
)]
pub struct UnknownState(pub String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_state_has_a_number_and_four_spellings() {
        for (state, value, short, long) in [
            (State::New, 1, "N", "NEW"),
            (State::Depend, 2, "D", "DEPEND"),
            (State::Priority, 4, "P", "PRIORITY"),
            (State::Sched, 8, "S", "SCHED"),
            (State::Run, 16, "R", "RUN"),
            (State::Cleanup, 32, "C", "CLEANUP"),
            (State::Inactive, 64, "I", "INACTIVE"),
        ] {
            assert_eq!(State::from_value(value), Some(state));
            assert_eq!(u64::from(state.value()), value);
            assert_eq!(state.to_string(), long);
            assert_eq!(state.short_name(), short);
            for name in [short, long] {
                assert_eq!(name.parse(), Ok(state));
                assert_eq!(name.to_lowercase().parse(), Ok(state));
            }
        }
    }

    #[test]
    fn refuses_mixed_case_and_virtual_states() {
        for text in ["", "Sched", "sCHED", "PD", "pending", "running", "X"] {
            assert_eq!(text.parse::<State>(), Err(UnknownState(text.to_owned())));
        }
        for value in [0, 3, 14, 128, u64::MAX] {
            assert_eq!(State::from_value(value), None);
        }
    }

    #[test]
    fn json_writes_numbers_and_reads_names_too() {
        for state in State::ALL {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, state.value().to_string());
            assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        }
        assert_eq!(serde_json::from_str::<State>("\"run\"").unwrap(), State::Run);
        for text in ["0", "14", "-1", "8.0", "\"Run\"", "null"] {
            assert!(serde_json::from_str::<State>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn other_text_is_not_a_state(
            text in prop_oneof!["\\PC*", "[a-zA-Z]{1,2}", prop::sample::select(State::ALL.to_vec())
                .prop_map(|state| state.long_name().to_owned())],
        ) {
            let named = State::ALL.into_iter().find(|state| {
                [state.long_name(), state.short_name()].iter().any(|name| {
                    *name == text || name.to_lowercase() == text
                })
            });
            prop_assert_eq!(text.parse::<State>().ok(), named);
        }
    }
}
