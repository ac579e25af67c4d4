//! Signals to a job's tasks, by number or name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::number_or_text::NumberOrText;

/// The names of Linux's signals in the order of their numbers, which start at 1.
const NAMES: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The names of the real-time signals that have one, with their numbers in the GNU C library.
const REAL_TIME: [(&str, usize); 2] = [("RTMIN", 34), ("RTMAX", 64)];

/// Which processes of a job get a signal.
///
/// ```
/// use jobtap_core::job::Reach;
///
/// assert_eq!(Reach::default(), Reach::Group);
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// The processes of the tasks, and what they have started.
    #[default]
    Group,
    /// Only the processes of the tasks, such as the shell of a batch script.
    Task,
    /// Only the processes of jobs that managers inside of the job run, such as the steps of a batch script.
    Steps,
}

impl Reach {
    /// Whether this is [`Group`](Self::Group), which needn't be written.
    #[doc(hidden)]
    #[must_use]
    pub fn is_group(&self) -> bool {
        *self == Self::Group
    }
}

/// A signal, 1 to 64. Parsed from its number or from its name with or without `SIG`. Displayed as
/// its name, or as its number if it is a real-time signal.
///
/// ```
/// use jobtap_core::job::Signal;
///
/// let usr1: Signal = "SIGUSR1".parse()?;
/// assert_eq!((usr1.number(), usr1.to_string().as_str()), (10, "SIGUSR1"));
/// assert_eq!("term".parse(), Ok(Signal::TERM));
/// assert_eq!("15".parse(), Ok(Signal::TERM));
/// # Ok::<(), jobtap_core::job::UnknownSignal>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

impl Signal {
    /// SIGKILL.
    pub const KILL: Signal = Signal(9);
    /// SIGALRM.
    pub const ALRM: Signal = Signal(14);
    /// SIGTERM.
    pub const TERM: Signal = Signal(15);

    /// The signal with this number; `None` below 1 and above 64.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        i32::try_from(number).ok().filter(|number| (1..=64).contains(number)).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether it is a real-time signal, whose meaning each program defines.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        self.0 > 31
    }

    /// Reads a signal from a configuration, by name or number.
    ///
    /// # Errors
    /// [`SignalError`] if the value isn't a signal. The message doesn't name the key of the configuration.
    ///
    /// ```
    /// use jobtap_core::job::Signal;
    /// use serde_json::json;
    ///
    /// assert_eq!(Signal::configured(&json!("TERM")), Ok(Signal::TERM));
    /// assert!(Signal::configured(&json!(0)).is_err());
    /// ```
    pub fn configured(value: &Value) -> Result<Self, SignalError> {
        Self::deserialize(value).map_err(|error| SignalError(error.to_string()))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = usize::try_from(self.0).ok().and_then(|number| number.checked_sub(1));
        match index.and_then(|index| NAMES.get(index)) {
            Some(name) => write!(f, "SIG{name}"),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let named = NAMES.iter().position(|known| *known == name).map(|index| index + 1);
        let real_time = || REAL_TIME.iter().find(|(known, _)| *known == name);
        let named = named.or_else(|| real_time().map(|(_, number)| *number));
        let number = named.and_then(|number| i64::try_from(number).ok());
        let number = number.or_else(|| text.parse().ok());
        number.and_then(Self::from_number).ok_or_else(|| UnknownSignal(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = NumberOrText::deserialize(deserializer)?.to_string();
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a value of a configuration isn't a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignalError(String);

/// A text that is not a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown signal `{0}`: expected a name such as SIGTERM, or a number from 1 to 64")]
pub struct UnknownSignal(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_names_and_numbers() {
        for text in ["SIGTERM", "TERM", "sigterm", "15"] {
            assert_eq!(text.parse(), Ok(Signal::TERM));
        }
        for (text, number) in [("SYS", 31), ("SIGRTMIN", 34), ("rtmax", 64)] {
            assert_eq!(text.parse::<Signal>().unwrap().number(), number);
        }
        for text in ["", "SIG", "NOSUCH", "0", "-1", "65"] {
            assert_eq!(text.parse::<Signal>(), Err(UnknownSignal(text.to_owned())));
        }
    }

    #[test]
    fn signals_are_configured_by_name_or_number() {
        for number in 1..=64 {
            assert_eq!(Signal::configured(&number.into()).ok(), Signal::from_number(number));
        }
        for value in [Value::Null, true.into(), "NONE".into(), 1.5.into(), vec![9].into()] {
            assert!(Signal::configured(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn every_signal_round_trips() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(signal.to_string().parse(), Ok(signal));
            assert_eq!(signal.to_string().starts_with("SIG"), !signal.is_real_time());
            let json = serde_json::to_string(&signal).unwrap();
            assert_eq!(serde_json::from_str::<Signal>(&json).unwrap(), signal);
            assert_eq!(serde_json::from_str::<Signal>(&number.to_string()).unwrap(), signal);
        }
    }
}
