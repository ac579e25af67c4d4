//! The configuration of `perilog`, with the keys and the messages of Flux.

use std::sync::Arc;

use jobtap_core::plugin::{Bulk, Perilog};
use jobtap_core::prelude::*;
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::unpack::{Expected, unpack};

/// The part of the instance's configuration that the plugin reads. The tables are read later, so that
/// errors have the messages of Flux.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    #[serde(rename = "job-manager")]
    manager: Tables,
    exec: Exec,
}

#[derive(Debug, Default, Deserialize)]
struct Tables {
    prolog: Option<Value>,
    epilog: Option<Value>,
    perilog: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Exec {
    imp: Option<String>,
}

/// `[job-manager.prolog]` or `[job-manager.epilog]`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct ScriptKeys {
    command: Option<Value>,
    timeout: Option<String>,
    kill_timeout: f64,
    per_rank: bool,
    cancel_on_exception: Option<bool>,
    /// Accepted for Flux; without effect, since all scripts are started at the same time.
    #[serde(rename = "exit-on-first-error")]
    _exit_on_first_error: bool,
    on_restart: Option<OnRestart>,
}

const KINDS: &[(&str, Expected)] = &[
    ("timeout", Expected::Text),
    ("kill-timeout", Expected::Number),
    ("per-rank", Expected::Bool),
    ("cancel-on-exception", Expected::Bool),
    ("exit-on-first-error", Expected::Bool),
];

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnRestart {
    Rerun,
    Fail,
}

/// `[job-manager.perilog]`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LogKeys {
    log_ignore: Option<Value>,
}

/// The prolog and the epilog, and which output is not logged.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) prolog: Option<Arc<Script>>,
    pub(super) epilog: Option<Arc<Script>>,
    pub(super) ignore: Arc<[Regex]>,
}

/// A prolog or an epilog. Serialized for the query data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Script {
    #[serde(skip)]
    pub(super) perilog: Perilog,
    command: Vec<String>,
    pub(super) per_rank: bool,
    pub(super) cancel_on_exception: bool,
    /// The time limit in seconds; 0 means no limit.
    timeout: f64,
    /// The time from SIGTERM to SIGKILL in seconds.
    #[serde(rename = "kill-timeout")]
    kill_timeout: f64,
    /// Whether the script is run again if the manager restarts while it runs.
    #[serde(skip)]
    pub(super) rerun: bool,
}

const PROLOG_TIMEOUT: f64 = 1800.0;
const KILL_TIMEOUT: f64 = 60.0;

impl Config {
    pub(super) fn new(conf: Watched) -> Result<Self, ConfError> {
        let Tables { prolog, epilog, perilog } = conf.manager;
        let script = |perilog: Perilog, table: Option<Value>| {
            let place = format!("job-manager.{}", perilog.word());
            let read = |table| Script::new(perilog, &table, conf.exec.imp.as_deref());
            let script = table.map(read).transpose().map_err(|error| error.in_table(&place));
            script.map(|script| script.map(Arc::new))
        };
        let ignore = log_ignore(&perilog.unwrap_or_else(|| json!({})));
        Ok(Self {
            prolog: script(Perilog::Prolog, prolog)?,
            epilog: script(Perilog::Epilog, epilog)?,
            ignore: ignore.map_err(|error| error.in_table("job-manager.perilog"))?.into(),
        })
    }

    /// The prolog or epilog, if it is run again after a restart.
    pub(super) fn to_rerun(&self, perilog: Perilog) -> Option<Arc<Script>> {
        let script = if perilog == Perilog::Prolog { &self.prolog } else { &self.epilog };
        script.clone().filter(|script| script.rerun)
    }
}

impl Script {
    fn new(perilog: Perilog, table: &Value, imp: Option<&str>) -> Result<Self, ConfError> {
        let (word, prolog) = (perilog.word(), perilog == Perilog::Prolog);
        let keys: ScriptKeys = unpack(table, KINDS)?;
        let command = match (keys.command, imp) {
            (Some(command @ Value::Array(_)), _) => Vec::<String>::deserialize(command)
                .ok()
                // Flux accepts an empty command, and then no job starts.
                .filter(|words| !words.is_empty())
                .ok_or_else(|| ConfError::new(format!("malformed {word} command")))?,
            (Some(_), _) => return Err(ConfError::new("command must be an array")),
            (None, Some(imp)) => [imp, "run", word].map(str::to_owned).into(),
            (None, None) => {
                return Err(ConfError::new("no command specified and exec.imp not defined"));
            }
        };
        let timeout = match keys.timeout {
            Some(text) => Fsd::from_config(&text)
                .map_err(|_| ConfError::new(format!("invalid {word} timeout")))?
                .as_secs(),
            None if prolog => PROLOG_TIMEOUT,
            None => 0.0,
        };
        Ok(Self {
            perilog,
            command,
            per_rank: keys.per_rank,
            cancel_on_exception: keys.cancel_on_exception.unwrap_or(prolog),
            timeout: if timeout.is_finite() { timeout } else { 0.0 },
            kill_timeout: if keys.kill_timeout > 0.0 { keys.kill_timeout } else { KILL_TIMEOUT },
            rerun: keys.on_restart.map_or(!prolog, |on_restart| on_restart == OnRestart::Rerun),
        })
    }

    /// The processes for a job: one on each rank of the job, or a single one on the rank of the manager.
    pub(super) fn bulk(&self, job: JobRef<'_>) -> Bulk {
        let mut words = self.command.iter().cloned();
        let process = Process::new(words.next().unwrap_or_default()).args(words).for_job(job);
        let ranks = job.resources().map(ResourceSet::ranks).filter(|_| self.per_rank);
        let bulk = Bulk::new(&ranks.unwrap_or_else(|| Idset::from(0)), process)
            .kill_timeout(self.kill_timeout);
        let bulk = if self.timeout > 0.0 { bulk.timeout(self.timeout) } else { bulk };
        // When the prolog fails on one rank, the job fails, so the others can be stopped. An epilog
        // has to clean every rank.
        if self.perilog == Perilog::Prolog { bulk.give_up_when_late() } else { bulk }
    }
}

/// The regular expressions of lines that are not logged. The default matches empty lines.
fn log_ignore(table: &Value) -> Result<Vec<Regex>, ConfError> {
    let wrong = |text: &str| ConfError::new(format!("error parsing log-ignore: {text}"));
    let keys: LogKeys = unpack(table, &[])?;
    let Value::Array(entries) = keys.log_ignore.unwrap_or_else(|| json!([r"^\s*$"])) else {
        return Err(wrong("not an array"));
    };
    let compile = |entry: &Value| {
        let text = entry.as_str().ok_or_else(|| wrong("all entries must be a string value"))?;
        Regex::new(text).map_err(|_| wrong(&format!("Failed to compile regex: {text}")))
    };
    entries.iter().map(compile).collect()
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ConfTable;

    use super::*;

    fn read(config: Value) -> Result<Config, ConfError> {
        Config::new(Watched::read_among_others(&config).unwrap())
    }

    fn refused(which: &str, table: Value) -> String {
        read(json!({"job-manager": {which: table}})).unwrap_err().to_string()
    }

    #[test]
    fn without_a_table_there_is_no_script() {
        let config = read(json!({"exec": {"imp": "/usr/libexec/imp"}})).unwrap();
        assert!(config.prolog.is_none() && config.epilog.is_none());
    }

    #[test]
    fn defaults_are_those_of_flux() {
        let tables = json!({"prolog": {"command": ["a", "b"]}, "epilog": {"kill-timeout": 0}});
        let config = read(json!({"job-manager": tables, "exec": {"imp": "imp"}})).unwrap();
        let prolog = config.prolog.unwrap();
        assert_eq!(prolog.command, ["a", "b"]);
        assert_eq!((prolog.timeout, prolog.kill_timeout), (1800.0, 60.0));
        assert!(prolog.cancel_on_exception && !prolog.per_rank && !prolog.rerun);
        let epilog = config.epilog.unwrap();
        assert_eq!(epilog.command, ["imp", "run", "epilog"]);
        assert_eq!((epilog.timeout, epilog.kill_timeout), (0.0, 60.0));
        assert!(!epilog.cancel_on_exception && epilog.rerun);
    }

    #[test]
    fn zero_and_infinity_mean_no_time_limit() {
        for timeout in ["0", "", "infinity"] {
            let table = json!({"command": ["true"], "timeout": timeout});
            let config = read(json!({"job-manager": {"prolog": table}})).unwrap();
            assert_eq!(config.prolog.unwrap().timeout, 0.0);
        }
    }

    #[test]
    fn errors_have_the_text_of_flux() {
        for which in ["prolog", "epilog"] {
            for (table, text) in [
                (json!({"command": "true"}), "command must be an array".to_owned()),
                (json!({"command": ["true", 1]}), format!("malformed {which} command")),
                (json!({"command": []}), format!("malformed {which} command")),
                (json!({"command": ["true"], "timeout": "x"}), format!("invalid {which} timeout")),
                (json!({"command": ["true"], "timeout": "-1"}), format!("invalid {which} timeout")),
                (
                    json!({"command": ["true"], "timeout": 5}),
                    "Expected string, got integer".to_owned(),
                ),
                (
                    json!({"command": ["true"], "kill-timeout": "x"}),
                    "Expected real or integer, got string".to_owned(),
                ),
                (json!({}), "no command specified and exec.imp not defined".to_owned()),
                (
                    json!({"comand": []}),
                    "1 object item(s) left unpacked: comand; did you mean command?".to_owned(),
                ),
                (
                    json!({"command": ["true"], "per-rank": 1}),
                    "Expected true or false, got integer".to_owned(),
                ),
                (
                    json!({"command": ["true"], "on-restart": "never"}),
                    "on-restart: unknown value \"never\": the values are rerun, fail".to_owned(),
                ),
                (json!(5), "Expected object, got integer".to_owned()),
            ] {
                assert_eq!(refused(which, table), format!("[job-manager.{which}]: {text}"));
            }
        }
        for (table, text) in [
            (json!({"log-ignore": "x"}), "error parsing log-ignore: not an array"),
            (
                json!({"log-ignore": [1]}),
                "error parsing log-ignore: all entries must be a string value",
            ),
            (json!({"log-ignore": ["("]}), "error parsing log-ignore: Failed to compile regex: ("),
            (json!({"ignore": []}), "1 object item(s) left unpacked: ignore"),
        ] {
            assert_eq!(refused("perilog", table), format!("[job-manager.perilog]: {text}"));
        }
    }
}
