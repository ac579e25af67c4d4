//! Sets of states and results, by which users select jobs, with the virtual states that stand for
//! several states.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::state::spells;
use super::{JobResult, State};

/// A set of states and, for inactive jobs, of results.
///
/// Parsed from names of states, virtual states and results, separated by commas, each in any of its
/// four spellings. The empty string is the empty set. `Display` and serde write such a list.
///
/// ```
/// use jobtap_core::job::{JobResult, State, StateSet};
///
/// let set: StateSet = "pending,failed".parse()?;
/// assert!(set.matches(State::Sched, None));
/// assert!(set.matches(State::Inactive, Some(JobResult::Failed)));
/// assert!(!set.matches(State::Inactive, Some(JobResult::Completed)));
/// # Ok::<(), jobtap_core::job::UnknownStatus>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StateSet {
    states: u8,
    results: u8,
}

impl StateSet {
    /// The empty set.
    pub const EMPTY: Self = Self::of_states(0);
    /// Virtual state `PD`: waiting for dependencies, a priority or resources.
    pub const PENDING: Self =
        Self::of_states(State::Depend as u8 | State::Priority as u8 | State::Sched as u8);
    /// Virtual state `RU`: has resources.
    pub const RUNNING: Self = Self::of_states(State::Run as u8 | State::Cleanup as u8);
    /// Virtual state `A`: pending or running.
    pub const ACTIVE: Self = Self::of_states(Self::PENDING.states | Self::RUNNING.states);

    const VIRTUAL: [(Self, &'static str, &'static str); 3] = [
        (Self::PENDING, "PENDING", "PD"),
        (Self::RUNNING, "RUNNING", "RU"),
        (Self::ACTIVE, "ACTIVE", "A"),
    ];

    const fn of_states(states: u8) -> Self {
        Self { states, results: 0 }
    }

    /// The states of a mask, which is the sum of their numbers (RFC 21). Other bits are ignored.
    #[must_use]
    pub fn from_bits(states: u64) -> Self {
        State::ALL
            .into_iter()
            .filter(|state| states & u64::from(state.value()) != 0)
            .fold(Self::EMPTY, |set, state| set | state.into())
    }

    /// The mask of the states. It doesn't have INACTIVE if the set only selects results.
    #[must_use]
    pub const fn state_bits(self) -> u8 {
        self.states
    }

    /// The mask of the results.
    #[must_use]
    pub const fn result_bits(self) -> u8 {
        self.results
    }

    /// Whether the set selects nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.states == 0 && self.results == 0
    }

    /// Whether all jobs in `state` are selected, whatever their result.
    #[must_use]
    pub const fn contains(self, state: State) -> bool {
        self.states & state.value() != 0
    }

    /// Whether a job in `state`, with `result` if it is inactive, is selected.
    #[must_use]
    pub fn matches(self, state: State, result: Option<JobResult>) -> bool {
        self.contains(state) || result.is_some_and(|result| self.results & result.value() != 0)
    }

    /// The states, in the order in which a job passes through them.
    pub fn states(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |&state| self.contains(state))
    }

    /// The results.
    pub fn results(self) -> impl Iterator<Item = JobResult> {
        JobResult::ALL.into_iter().filter(move |result| self.results & result.value() != 0)
    }

    fn of_name(name: &str) -> Option<Self> {
        let of_virtual = || {
            Self::VIRTUAL
                .into_iter()
                .find(|(_, long, short)| spells(name, long) || spells(name, short))
                .map(|(set, ..)| set)
        };
        let of_result = || name.parse::<JobResult>().ok().map(Self::from);
        let of_state = name.parse::<State>().ok().map(Self::from);
        of_state.or_else(of_virtual).or_else(of_result)
    }
}

impl From<State> for StateSet {
    fn from(state: State) -> Self {
        Self::of_states(state.value())
    }
}

impl From<JobResult> for StateSet {
    fn from(result: JobResult) -> Self {
        Self { states: 0, results: result.value() }
    }
}

impl BitOr for StateSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { states: self.states | other.states, results: self.results | other.results }
    }
}

impl BitOrAssign for StateSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Display for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.states().map(State::long_name);
        let names = states.chain(self.results().map(JobResult::long_name));
        let mut separator = "";
        for name in names {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl From<StateSet> for String {
    fn from(set: StateSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for StateSet {
    type Error = UnknownStatus;

    fn try_from(text: String) -> Result<Self, UnknownStatus> {
        text.parse()
    }
}

impl FromStr for StateSet {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let mut set = Self::EMPTY;
        for name in text.split(',').filter(|_| !text.is_empty()) {
            set |= Self::of_name(name.trim()).ok_or_else(|| UnknownStatus(name.to_owned()))?;
        }
        Ok(set)
    }
}

/// A text that is not the name of a state, virtual state or result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown job state or result `{0}`: use depend, priority, sched, run, cleanup, inactive, \
     pending, running, active, completed, failed, canceled or timeout"
)]
pub struct UnknownStatus(pub String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn virtual_states_have_masks_and_spellings() {
        for (bits, short, long) in
            [(14, "PD", "PENDING"), (48, "RU", "RUNNING"), (62, "A", "ACTIVE")]
        {
            for name in [short, long] {
                for text in [name.to_owned(), name.to_lowercase()] {
                    let set: StateSet = text.parse().unwrap();
                    assert_eq!(set.state_bits(), bits);
                    assert_eq!(set.result_bits(), 0);
                }
            }
        }
    }

    #[test]
    fn a_list_is_the_union_of_its_names() {
        let set: StateSet = "pd,R, timeout,CD".parse().unwrap();
        assert_eq!(set.state_bits(), 14 | 16);
        assert_eq!(set.result_bits(), 1 | 8);
        assert_eq!(
            set.states().collect::<Vec<_>>(),
            [State::Depend, State::Priority, State::Sched, State::Run]
        );
        assert_eq!(set.results().collect::<Vec<_>>(), [JobResult::Completed, JobResult::Timeout]);
    }

    #[test]
    fn inactive_selects_all_results_and_a_result_one() {
        let all: StateSet = "inactive".parse().unwrap();
        let failed = StateSet::from(JobResult::Failed);
        for result in JobResult::ALL {
            assert!(all.matches(State::Inactive, Some(result)));
            assert_eq!(failed.matches(State::Inactive, Some(result)), result == JobResult::Failed);
        }
        assert!(!failed.matches(State::Run, None));
        assert!(!failed.contains(State::Inactive));
    }

    #[test]
    fn an_error_quotes_the_unknown_name() {
        for (text, name) in [(",", ""), ("run,", ""), ("run,Foo", "Foo"), ("Pending", "Pending")] {
            assert_eq!(text.parse::<StateSet>(), Err(UnknownStatus(name.to_owned())));
        }
        assert_eq!("".parse(), Ok(StateSet::EMPTY));
        assert!(StateSet::EMPTY.is_empty());
    }

    proptest! {
        #[test]
        fn masks_round_trip(bits in 0..128u64) {
            let set = StateSet::from_bits(bits);
            prop_assert_eq!(u64::from(set.state_bits()), bits);
            let again = set.states().fold(StateSet::EMPTY, |set, state| set | state.into());
            prop_assert_eq!(again, set);
        }

        #[test]
        fn text_and_json_round_trip(states in 0..128u8, results in 0..16u8) {
            let set = StateSet { states, results };
            prop_assert_eq!(set.to_string().parse(), Ok(set));
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<StateSet>(&json).unwrap(), set);
        }

        #[test]
        fn text_is_parsed_or_its_unknown_name_reported(
            text in "\\PC*|((run|PENDING|ca|f|inactive|x),?){0,4}",
        ) {
            match text.parse::<StateSet>() {
                Ok(set) => prop_assert_eq!(set.to_string().parse(), Ok(set)),
                Err(UnknownStatus(name)) => {
                    prop_assert!(text.split(',').any(|part| part == name), "{}", name);
                }
            }
        }
    }
}
