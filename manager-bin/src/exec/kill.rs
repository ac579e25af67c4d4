//! How a job that doesn't end by itself is killed: the keys of `[exec]` that say so, in the form in
//! which the shepherd is told, which goes on with it when the manager is gone.

use std::time::Duration;

use jobtap_core::job::{Fsd, Signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Between two signals at least, lest a timeout of none keep a processor busy.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The pause grows to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A value under `[exec]` that can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KillPolicyError {
    /// Not a duration, or longer than time.
    #[error("exec.{key}: invalid FSD {value}")]
    Duration {
        /// The key in `[exec]`.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// Not a signal, or a real-time one.
    #[error("exec.kill-signal: {0}")]
    Signal(String),
    /// Not a number, or none at all.
    #[error("exec.max-kill-count: must be an integer from 1, not {0}")]
    Count(String),
}

/// How a job is killed that the first signal didn't end. Times are in seconds.
///
/// What an older manager doesn't say is as it was with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KillPolicy {
    /// From the first signal to the first kill signal, and the measure of the pauses after
    /// (`exec.kill-timeout`, 5 s).
    pub kill_timeout: f64,
    /// The signal that is repeated (`exec.kill-signal`, SIGKILL).
    pub kill_signal: Signal,
    /// When so many kill signals were of no use the job's nodes are given up
    /// (`exec.max-kill-count`, 8).
    pub max_kill_count: u32,
    /// The same when so much time has passed since the first kill signal
    /// (`exec.max-kill-timeout`, no limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kill_timeout: Option<f64>,
}

impl Default for KillPolicy {
    fn default() -> Self {
        Self {
            kill_timeout: 5.0,
            kill_signal: Signal::KILL,
            max_kill_count: 8,
            max_kill_timeout: None,
        }
    }
}

impl KillPolicy {
    /// What a configuration says.
    ///
    /// # Errors
    /// The first value that can't be used; the text names its key.
    pub fn read(config: &Value) -> Result<Self, KillPolicyError> {
        let mut policy = Self::default();
        let value = |key| config.get("exec").and_then(|table| table.get(key));
        if let Some(patience) = value("kill-timeout") {
            let patience = fsd("kill-timeout", patience)?;
            let patience = patience.ok_or_else(|| invalid("kill-timeout", "\"infinity\""))?;
            policy.kill_timeout = patience;
        }
        if let Some(signal) = value("kill-signal") {
            policy.kill_signal = kill_signal(signal)?;
        }
        if let Some(count) = value("max-kill-count") {
            let number = count.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| *number > 0);
            policy.max_kill_count =
                number.ok_or_else(|| KillPolicyError::Count(count.to_string()))?;
        }
        if let Some(limit) = value("max-kill-timeout") {
            policy.max_kill_timeout = fsd("max-kill-timeout", limit)?;
        }
        Ok(policy)
    }

    /// From the first signal to the first kill signal.
    pub(super) fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.kill_timeout).unwrap_or(Duration::ZERO)
    }

    /// The pause after so many kill signals: each is twice the one before.
    pub(super) fn pause_after(&self, kills: u32) -> Duration {
        let factor = 2u32.saturating_pow(kills.min(16));
        self.patience().max(SHORTEST_PAUSE).saturating_mul(factor).min(LONGEST_PAUSE)
    }

    /// From the first kill signal until the nodes are given up; `None` when only the count says.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.max_kill_timeout.and_then(|limit| Duration::try_from_secs_f64(limit).ok())
    }
}

fn invalid(key: &'static str, value: impl ToString) -> KillPolicyError {
    KillPolicyError::Duration { key, value: value.to_string() }
}

/// Seconds; `None` when it never ends.
fn fsd(key: &'static str, value: &Value) -> Result<Option<f64>, KillPolicyError> {
    let duration = Fsd::deserialize(value).map_err(|_| invalid(key, value))?;
    if duration.is_infinite() {
        return Ok(None);
    }
    let representable = duration.to_duration().ok_or_else(|| invalid(key, value))?;
    Ok(Some(representable.as_secs_f64()))
}

fn kill_signal(value: &Value) -> Result<Signal, KillPolicyError> {
    let signal =
        Signal::deserialize(value).map_err(|error| KillPolicyError::Signal(error.to_string()))?;
    if signal.is_real_time() {
        return Err(KillPolicyError::Signal(format!("{signal} is a real-time signal")));
    }
    Ok(signal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_as_in_flux() {
        let read = KillPolicy::read(&json!({"exec": {"method": "bulk-exec"}})).unwrap();
        assert_eq!(read, KillPolicy::default());
        assert_eq!((read.kill_timeout, read.max_kill_count), (5.0, 8));
        assert_eq!((read.kill_signal, read.max_kill_timeout), (Signal::KILL, None));
    }

    #[test]
    fn all_keys_are_read() {
        let config = json!({"exec": {"kill-timeout": "1m", "kill-signal": "INT",
                                     "max-kill-count": 3, "max-kill-timeout": 90}});
        let read = KillPolicy::read(&config).unwrap();
        assert_eq!((read.kill_timeout, read.max_kill_count), (60.0, 3));
        assert_eq!((read.kill_signal.number(), read.max_kill_timeout), (2, Some(90.0)));
        let for_ever = json!({"exec": {"max-kill-timeout": "infinity"}});
        assert_eq!(KillPolicy::read(&for_ever).unwrap().limit(), None);
    }

    #[test]
    fn a_bad_value_is_refused_by_its_key() {
        for (key, values) in [
            ("kill-timeout", [json!("soon"), json!(-1), json!("infinity"), json!(true)]),
            ("kill-signal", [json!("SIGNONE"), json!(0), json!(40), json!([9])]),
            ("max-kill-count", [json!(0), json!(-1), json!("8"), json!(1.5)]),
            ("max-kill-timeout", [json!("soon"), json!(-1), json!(1e30), json!({})]),
        ] {
            for value in values {
                let text =
                    KillPolicy::read(&json!({"exec": {key: value}})).unwrap_err().to_string();
                assert!(text.starts_with(&format!("exec.{key}: ")), "{text}");
            }
        }
    }

    #[test]
    fn pauses_double_up_to_five_minutes_and_are_never_none() {
        let pauses = |kill_timeout| {
            let policy = KillPolicy { kill_timeout, ..KillPolicy::default() };
            [0, 1, 2, 3, 7, 100].map(|kills| policy.pause_after(kills).as_secs_f64())
        };
        assert_eq!(pauses(5.0), [5.0, 10.0, 20.0, 40.0, 300.0, 300.0]);
        assert!(pauses(0.0).iter().all(|pause| *pause > 0.0));
    }
}
