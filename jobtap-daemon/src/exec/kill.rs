//! The kill policy: how a job that does not end on the first signal is killed.
//!
//! It is read from the keys of `[exec]` and sent to the shepherd with each request, because the shepherd
//! continues to kill the job when the manager is gone.

use std::time::Duration;

use jobtap_core::job::{Fsd, Signal, SignalError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The shortest pause between two kill signals, in seconds: a killed process does not exit at once.
const SHORTEST_PAUSE: f64 = 1.0;

/// The longest pause between two kill signals; pauses double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A value under `[exec]` that can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KillPolicyError {
    /// Not a duration.
    #[error("exec.{key}: invalid FSD {value}: use seconds, or a text such as \"30s\"")]
    Duration {
        /// The key in `[exec]`.
        key: &'static str,
        /// The invalid value.
        value: String,
    },
    /// A duration outside the range of the key.
    #[error("exec.{key}: must be {must}")]
    Range {
        /// The key in `[exec]`.
        key: &'static str,
        /// The condition that the value has to meet.
        must: &'static str,
    },
    /// Not a signal.
    #[error("exec.{key}: {error}")]
    Signal {
        /// The key in `[exec]`.
        key: &'static str,
        /// The reason.
        error: SignalError,
    },
    /// Not an integer, or zero.
    #[error("exec.max-kill-count: must be an integer from 1, not {0}")]
    Count(String),
}

/// How to kill a job that did not end on the first signal. Times are in seconds.
///
/// A field that a message lacks has its default, which is what the absence of the field meant to the
/// manager that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KillPolicy {
    /// The pause between the first signal and the first kill signal; the pauses after it are multiples
    /// of this (`exec.kill-timeout`, 5 s).
    pub kill_timeout: f64,
    /// The signal that is repeated (`exec.kill-signal`, SIGKILL).
    pub kill_signal: Signal,
    /// The number of kill signals after which the job is declared unkillable and its nodes are drained
    /// (`exec.max-kill-count`, 8).
    pub max_kill_count: u32,
    /// The time since the first kill signal after which the same happens
    /// (`exec.max-kill-timeout`, no limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kill_timeout: Option<f64>,
    /// The shortest pause after a kill signal.
    #[serde(skip_serializing_if = "is_usual")]
    pub shortest_pause: f64,
    /// The first signal to a job that the shepherd ends without a manager (`exec.term-signal`, SIGTERM).
    #[serde(skip_serializing_if = "is_term")]
    pub term_signal: Signal,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual(pause: &f64) -> bool {
    *pause == SHORTEST_PAUSE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_term(signal: &Signal) -> bool {
    *signal == Signal::TERM
}

impl Default for KillPolicy {
    fn default() -> Self {
        Self {
            kill_timeout: 5.0,
            kill_signal: Signal::KILL,
            max_kill_count: 8,
            max_kill_timeout: None,
            shortest_pause: SHORTEST_PAUSE,
            term_signal: Signal::TERM,
        }
    }
}

impl KillPolicy {
    /// Reads the policy from the keys of `[exec]` in `config`.
    ///
    /// # Errors
    /// Fails on the first invalid value; the message names its key.
    pub fn read(config: &Value) -> Result<Self, KillPolicyError> {
        let mut policy = Self::default();
        let value = |key| config.get("exec").and_then(|table| table.get(key));
        if let Some(patience) = value("kill-timeout") {
            let patience = fsd("kill-timeout", patience)?;
            let finite = KillPolicyError::Range { key: "kill-timeout", must: "finite" };
            policy.kill_timeout = patience.ok_or(finite)?;
        }
        for (key, place) in
            [("kill-signal", &mut policy.kill_signal), ("term-signal", &mut policy.term_signal)]
        {
            if let Some(signal) = value(key) {
                let signal = Signal::configured(signal);
                *place = signal.map_err(|error| KillPolicyError::Signal { key, error })?;
            }
        }
        if let Some(count) = value("max-kill-count") {
            let number = count.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| *number > 0);
            policy.max_kill_count =
                number.ok_or_else(|| KillPolicyError::Count(count.to_string()))?;
        }
        if let Some(limit) = value("max-kill-timeout") {
            policy.max_kill_timeout = fsd("max-kill-timeout", limit)?;
            if policy.max_kill_timeout == Some(0.0) {
                let must = "more than 0: a job that was just killed needs a moment to be gone";
                return Err(KillPolicyError::Range { key: "max-kill-timeout", must });
            }
        }
        Ok(policy)
    }

    /// The pause between the first signal and the first kill signal.
    pub(super) fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.kill_timeout).unwrap_or(Duration::ZERO)
    }

    /// The pause after the given number of kill signals: each is twice the one before, between the
    /// shortest and the longest.
    pub(super) fn pause_after(&self, kills: u32) -> Duration {
        let factor = 2u32.saturating_pow(kills.min(16));
        self.patience().saturating_mul(factor).max(self.shortest()).min(LONGEST_PAUSE)
    }

    /// The time from the first kill signal until the job is declared unkillable; `None` if only the
    /// count decides.
    pub(super) fn limit(&self) -> Option<Duration> {
        let limit = self.max_kill_timeout.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
        limit.map(|limit| limit.max(self.shortest()))
    }

    fn shortest(&self) -> Duration {
        Duration::try_from_secs_f64(self.shortest_pause).unwrap_or(Duration::ZERO)
    }
}

fn invalid(key: &'static str, value: impl ToString) -> KillPolicyError {
    KillPolicyError::Duration { key, value: value.to_string() }
}

/// Parses a duration into seconds; `None` if it is infinite.
fn fsd(key: &'static str, value: &Value) -> Result<Option<f64>, KillPolicyError> {
    let duration = Fsd::deserialize(value).map_err(|_| invalid(key, value))?;
    if duration.is_infinite() {
        return Ok(None);
    }
    let representable = duration.to_duration().ok_or_else(|| invalid(key, value))?;
    Ok(Some(representable.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_keys_have_the_defaults_of_flux() {
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
            ("kill-signal", [json!("SIGNONE"), json!(0), json!(65), json!([9])]),
            ("max-kill-count", [json!(0), json!(-1), json!("8"), json!(1.5)]),
            ("max-kill-timeout", [json!("soon"), json!(-1), json!(1e30), json!(0)]),
        ] {
            for value in values {
                let text =
                    KillPolicy::read(&json!({"exec": {key: value}})).unwrap_err().to_string();
                assert!(text.starts_with(&format!("exec.{key}: ")), "{text}");
            }
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refusal =
            |exec: Value| KillPolicy::read(&json!({ "exec": exec })).unwrap_err().to_string();
        for (exec, text) in [
            (json!({"kill-timeout": "infinity"}), "exec.kill-timeout: must be finite"),
            (
                json!({"kill-timeout": -1}),
                "exec.kill-timeout: invalid FSD -1: use seconds, or a text such as \"30s\"",
            ),
            (
                json!({"kill-signal": 65}),
                "exec.kill-signal: unknown signal `65`: expected a name such as SIGTERM, or a number from 1 to 64",
            ),
        ] {
            assert_eq!(refusal(exec), text);
        }
    }

    #[test]
    fn there_is_a_pause_after_each_kill_signal() {
        let hasty = json!({"exec": {"kill-timeout": 0, "max-kill-timeout": "1ms"}});
        let hasty = KillPolicy::read(&hasty).unwrap();
        assert_eq!(hasty.patience(), Duration::ZERO);
        assert_eq!(hasty.pause_after(1), Duration::from_secs(1));
        assert_eq!(hasty.limit(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn pauses_double_from_one_second_up_to_five_minutes() {
        let pauses = |kill_timeout| {
            let policy = KillPolicy { kill_timeout, ..KillPolicy::default() };
            [0, 1, 2, 3, 7, 100].map(|kills| policy.pause_after(kills).as_secs_f64())
        };
        assert_eq!(pauses(5.0), [5.0, 10.0, 20.0, 40.0, 300.0, 300.0]);
        assert_eq!(pauses(0.3), [1.0, 1.0, 1.2, 2.4, 38.4, 300.0]);
    }
}
