//! Signals to a job's tasks, by number or name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::number_or_text::NumberOrText;

/// The names of Linux's signals, by number from 1 on.
const NAMES: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// A signal, 1 to 64. Parsed from its number or from its name with or without `SIG`. Displayed as
/// its name, or as its number if it has no name.
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

    /// Whether it is a real-time signal, which has no name and a meaning that each program defines.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        self.0 > 31
    }

    /// Returns the signal if it can be sent to jobs.
    ///
    /// # Errors
    /// [`SignalError::RealTime`] for real-time signals, which can't be sent.
    ///
    /// ```
    /// use jobtap_core::job::Signal;
    ///
    /// assert!(Signal::TERM.sendable().is_ok());
    /// assert!(Signal::from_number(40).unwrap().sendable().is_err());
    /// ```
    pub const fn sendable(self) -> Result<Self, SignalError> {
        if self.is_real_time() { Err(SignalError::RealTime(self.0)) } else { Ok(self) }
    }

    /// Reads a signal from a configuration, by name or number.
    ///
    /// # Errors
    /// [`SignalError`] if the value isn't a signal that can be sent to jobs. The message doesn't name
    /// the key of the configuration.
    ///
    /// ```
    /// use jobtap_core::job::Signal;
    /// use serde_json::json;
    ///
    /// assert_eq!(Signal::configured(&json!("TERM")), Ok(Signal::TERM));
    /// assert!(Signal::configured(&json!(0)).is_err());
    /// ```
    pub fn configured(value: &Value) -> Result<Self, SignalError> {
        let signal = Self::deserialize(value);
        signal.map_err(|error| SignalError::Unknown(error.to_string()))?.sendable()
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

/// Why a value isn't a signal that can be sent to jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The value is not a signal.
    #[error("{0}")]
    Unknown(String),
    /// The value is a real-time signal, with this number.
    #[error("{0} is a real-time signal, which can't be sent: use one from 1 to 31")]
    RealTime(i32),
}

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
        assert_eq!("SYS".parse::<Signal>().unwrap().number(), 31);
        for text in ["", "SIG", "NOSUCH", "0", "-1", "65"] {
            assert_eq!(text.parse::<Signal>(), Err(UnknownSignal(text.to_owned())));
        }
    }

    #[test]
    fn real_time_signals_cannot_be_sent_or_configured() {
        for number in 1..=64 {
            let sent = Signal::from_number(number).unwrap().sendable();
            assert_eq!(sent.is_ok(), number < 32, "{number}");
            assert_eq!(Signal::configured(&number.into()), sent);
        }
        for value in [Value::Null, true.into(), "NONE".into(), 1.5.into(), vec![9].into()] {
            assert!(matches!(Signal::configured(&value), Err(SignalError::Unknown(_))), "{value}");
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
