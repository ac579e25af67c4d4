//! The configuration of `housekeeping`, with the keys and the messages of Flux.

use jobtap_core::prelude::*;
use serde_json::Value;

use crate::unpack::{Expected, unpack};

const PLACE: &str = "job-manager.housekeeping";

/// The part of the instance's configuration that the plugin reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    #[serde(rename = "job-manager")]
    manager: Tables,
    exec: Exec,
}

#[derive(Debug, Default, Deserialize)]
struct Tables {
    housekeeping: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Exec {
    imp: Option<String>,
}

/// `[job-manager.housekeeping]`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Keys {
    command: Option<Value>,
    release_after: Option<Value>,
    /// For a runner of several scripts in Flux; ignored, since there is one script here.
    #[serde(rename = "exit-on-first-error")]
    _exit_on_first_error: Option<bool>,
    use_systemd_unit: Option<bool>,
}

const KINDS: &[(&str, Expected)] =
    &[("release-after", Expected::Text), ("exit-on-first-error", Expected::Bool)];

/// The script that runs on each rank after a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub(super) command: Vec<String>,
    pub(super) release: Release,
    /// Whether the command runs the IMP of `exec.imp`.
    pub(super) imp: bool,
    /// Whether a deprecated key is set.
    pub(super) systemd: bool,
}

/// When the ranks whose script has ended are released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Release {
    /// When all scripts have ended.
    Together,
    /// One by one.
    Each,
    /// Together after this many seconds from the end of the first script, then one by one.
    After(f64),
}

impl Script {
    /// Reads the configuration; `None` if there is no script.
    pub(super) fn read(watched: &Watched) -> Result<Option<Self>, ConfError> {
        let Some(table) = &watched.manager.housekeeping else {
            return Ok(None);
        };
        let keys: Keys = unpack(table, KINDS)
            .map_err(|error| ConfError::new(format!("{PLACE}: {}", error.text())))?;
        let (command, imp) = match (keys.command, &watched.exec.imp) {
            (Some(command), _) => (Vec::<String>::deserialize(command).unwrap_or_default(), false),
            (None, Some(imp)) => ([imp, "run", "housekeeping"].map(str::to_owned).into(), true),
            (None, None) => {
                return Err(ConfError::new(format!(
                    "{PLACE} implies IMP but exec.imp is undefined"
                )));
            }
        };
        if command.is_empty() {
            return Err(ConfError::new("error creating housekeeping command"));
        }
        let duration = |value: Value| value.as_str().map(str::parse::<Fsd>).and_then(Result::ok);
        let release = match keys.release_after.map(|value| duration(value).ok_or(())) {
            None => Release::Together,
            Some(Ok(after)) if after.as_secs() == 0.0 => Release::Each,
            Some(Ok(after)) if after.as_secs().is_finite() => Release::After(after.as_secs()),
            Some(Ok(_)) => Release::Together,
            Some(Err(_)) => {
                return Err(ConfError::new(format!("{PLACE}.release-after FSD parse error")));
            }
        };
        Ok(Some(Self { command, release, imp, systemd: keys.use_systemd_unit.is_some() }))
    }

    /// The value of `release-after` in seconds, as in Flux's query data; -1 if not set.
    pub(super) fn release_after(&self) -> f64 {
        match self.release {
            Release::Together => -1.0,
            Release::Each => 0.0,
            Release::After(seconds) => seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ConfTable;
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Option<Script>, ConfError> {
        Script::read(&Watched::read_among_others(&config).unwrap())
    }

    fn read_table(table: Value) -> Result<Option<Script>, ConfError> {
        read(json!({ "job-manager": { "housekeeping": table } }))
    }

    #[test]
    fn without_a_table_there_is_no_script() {
        assert_eq!(read(json!({"exec": {"imp": "/usr/libexec/imp"}})), Ok(None));
    }

    #[test]
    fn the_default_command_is_that_of_the_imp() {
        let config = json!({"job-manager": {"housekeeping": {}}, "exec": {"imp": "imp"}});
        let script = read(config).unwrap().unwrap();
        assert_eq!(script.command, ["imp", "run", "housekeeping"]);
        assert!(script.imp);
    }

    #[test]
    fn reads_when_ranks_are_released() {
        for (value, release) in [
            (Value::Null, Release::Together),
            (json!("infinity"), Release::Together),
            (json!("0s"), Release::Each),
            (json!("2m"), Release::After(120.0)),
        ] {
            let mut table = json!({"command": ["true"]});
            if !value.is_null() {
                table["release-after"] = value;
            }
            assert_eq!(read_table(table).unwrap().unwrap().release, release);
        }
    }

    #[test]
    fn errors_have_the_text_of_flux() {
        for (table, text) in [
            (json!({}), "job-manager.housekeeping implies IMP but exec.imp is undefined"),
            (
                json!({"command": ["true"], "comand": 1}),
                "job-manager.housekeeping: 1 object item(s) left unpacked: comand; did you mean command?",
            ),
            (json!({"command": "true"}), "error creating housekeeping command"),
            (json!({"command": []}), "error creating housekeeping command"),
            (json!({"command": ["true", 1]}), "error creating housekeeping command"),
            (
                json!({"command": ["true"], "release-after": "x"}),
                "job-manager.housekeeping.release-after FSD parse error",
            ),
            (
                json!({"command": ["true"], "release-after": 5}),
                "job-manager.housekeeping: Expected string, got integer",
            ),
            (json!(5), "job-manager.housekeeping: Expected object, got integer"),
        ] {
            assert_eq!(read_table(table), Err(ConfError::new(text)));
        }
    }
}
