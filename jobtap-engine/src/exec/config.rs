//! The keys of `[exec]` that the engine uses; the executor uses those about processes.

use serde_json::Value;

use crate::job::{Signal, SignalError};
use crate::settings::{SettingError, setting};

/// The default of `exec.max-start-delay-percent`.
const MAX_START_DELAY: f64 = 25.0;

/// Why a value in `[exec]` can't be used. The text names the key.
#[derive(Debug, thiserror::Error)]
pub enum ExecConfigError {
    /// The value has the wrong type, or a key that should contain it isn't a table.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// `term-signal` is no signal.
    #[error("exec.term-signal: {0}")]
    TermSignal(SignalError),
    /// `max-start-delay-percent` is negative or no number.
    #[error("exec.max-start-delay-percent: must be a number from 0, not {0}")]
    MaxStartDelay(Value),
}

/// How jobs are ended, how late they may start, and who may simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExecConfig {
    /// The first signal that ends a job, unless its time is up.
    pub(crate) term_signal: Signal,
    /// The fraction of its duration by which a job may start late without ending later.
    pub(crate) max_start_delay: f64,
    /// Whether jobs of guests may be simulated.
    pub(crate) guests_simulate: bool,
}

impl ExecConfig {
    /// Reads the keys.
    pub(crate) fn read(config: &Value) -> Result<Self, ExecConfigError> {
        let term_signal = match setting::<Value>(config, "exec.term-signal")? {
            None => Signal::TERM,
            Some(signal) => Signal::configured(&signal).map_err(ExecConfigError::TermSignal)?,
        };
        let percent = match setting::<Value>(config, "exec.max-start-delay-percent")? {
            None => MAX_START_DELAY,
            Some(percent) => percent
                .as_f64()
                .filter(|percent| *percent >= 0.0)
                .ok_or(ExecConfigError::MaxStartDelay(percent))?,
        };
        let guests_simulate = setting(config, "exec.testexec.allow-guests")?.unwrap_or(false);
        Ok(Self { term_signal, max_start_delay: percent / 100.0, guests_simulate })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_those_of_flux() {
        let defaults =
            ExecConfig { term_signal: Signal::TERM, max_start_delay: 0.25, guests_simulate: false };
        for config in [json!({}), json!({"exec": {"imp": "/usr/libexec/imp"}})] {
            assert_eq!(ExecConfig::read(&config).unwrap(), defaults);
        }
    }

    #[test]
    fn signals_are_names_or_numbers() {
        for signal in [json!("SIGINT"), json!("INT"), json!(2), json!("2")] {
            let config = json!({"exec": {"term-signal": signal, "max-start-delay-percent": 50}});
            let read = ExecConfig::read(&config).unwrap();
            assert_eq!((read.term_signal.number(), read.max_start_delay), (2, 0.5));
        }
    }

    #[test]
    fn a_bad_value_is_refused_by_its_key() {
        for (key, values) in [
            ("term-signal", [json!("SIGNONE"), json!(0), json!(65), json!(true)]),
            ("max-start-delay-percent", [json!(-1), json!("25"), json!(null), json!([25])]),
        ] {
            for value in values {
                let error = ExecConfig::read(&json!({"exec": {key: value}})).unwrap_err();
                let text = error.to_string();
                assert!(text.starts_with(&format!("exec.{key}: ")), "{text}");
            }
        }
    }

    #[test]
    fn a_value_in_place_of_a_table_is_refused_by_name() {
        for (config, named) in [
            (json!({"exec": 5}), "exec: "),
            (json!({"exec": [{"term-signal": "INT"}]}), "exec: "),
            (json!({"exec": {"testexec": true}}), "exec.testexec: "),
            (
                json!({"exec": {"testexec": {"allow-guests": "yes"}}}),
                "exec.testexec.allow-guests: ",
            ),
        ] {
            let text = ExecConfig::read(&config).unwrap_err().to_string();
            assert!(text.starts_with(named), "{text}");
        }
        let allowed = json!({"exec": {"testexec": {"allow-guests": true}}});
        assert!(ExecConfig::read(&allowed).unwrap().guests_simulate);
    }
}
