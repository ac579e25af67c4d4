//! The configuration of `perilog`: Flux's keys and the words in which Flux refuses them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::plugin::Bracket;
use jobtap_core::prelude::*;
use regex::Regex;
use serde_json::{Map, Value, json};

/// What is read of the instance's configuration. The tables stay raw: their mistakes have Flux's
/// texts.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Watched {
    #[serde(default, rename = "job-manager")]
    manager: Tables,
    #[serde(default)]
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

/// What is to be run, and which of its output is not worth a line in the log.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) prolog: Option<Arc<Script>>,
    pub(super) epilog: Option<Arc<Script>>,
    pub(super) ignore: Arc<[Regex]>,
}

/// A prolog or an epilog.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub(super) bracket: Bracket,
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// In seconds; none is for ever.
    pub(super) timeout: Option<f64>,
    /// How long it has to end by itself after SIGTERM, in seconds.
    pub(super) kill_timeout: f64,
    pub(super) per_rank: bool,
    pub(super) cancel_on_exception: bool,
    /// It begins again when the manager was restarted while it ran.
    pub(super) rerun: bool,
}

const KEYS: [&str; 7] = [
    "command",
    "timeout",
    "kill-timeout",
    "per-rank",
    "cancel-on-exception",
    "exit-on-first-error",
    "on-restart",
];
const PROLOG_TIMEOUT: f64 = 1800.0;
const KILL_TIMEOUT: f64 = 60.0;

impl Config {
    pub(super) fn new(conf: Watched) -> Result<Self, ConfError> {
        let imp = conf.exec.imp.as_deref();
        let script = |bracket, table: Option<Value>| {
            table.map(|table| Script::new(bracket, &table, imp).map(Arc::new)).transpose()
        };
        Ok(Self {
            prolog: script(Bracket::Prolog, conf.manager.prolog)?,
            epilog: script(Bracket::Epilog, conf.manager.epilog)?,
            ignore: log_ignore(conf.manager.perilog.as_ref())?.into(),
        })
    }

    pub(super) fn script(&self, bracket: Bracket) -> Option<&Arc<Script>> {
        match bracket {
            Bracket::Prolog => self.prolog.as_ref(),
            Bracket::Epilog => self.epilog.as_ref(),
        }
    }
}

impl Script {
    fn new(bracket: Bracket, table: &Value, imp: Option<&str>) -> Result<Self, ConfError> {
        let word = bracket.word();
        let table = Table::new(format!("job-manager.{word}"), table, &KEYS)?;
        let mut command = match table.get("command") {
            Some(Value::Array(words)) => words
                .iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| table.wrong(format!("malformed {word} command")))?,
            Some(_) => return Err(table.wrong("command must be an array")),
            None => {
                let imp = imp
                    .ok_or_else(|| table.wrong("no command specified and exec.imp not defined"))?;
                [imp, "run", word].map(str::to_owned).into()
            }
        };
        if command.is_empty() {
            return Err(table.wrong(format!("malformed {word} command")));
        }
        let program = command.remove(0);
        let prolog = bracket == Bracket::Prolog;
        let default = if prolog { PROLOG_TIMEOUT } else { 0.0 };
        let timeout = table.get("timeout").map_or(Ok(default), |value| {
            let read = Fsd::deserialize(value).map(Fsd::as_secs);
            read.map_err(|_| table.wrong(format!("invalid {word} timeout")))
        })?;
        let kill_timeout = table.get("kill-timeout").map_or(Ok(KILL_TIMEOUT), |value| {
            value.as_f64().ok_or_else(|| table.wrong("kill-timeout must be a number of seconds"))
        })?;
        table.flag("exit-on-first-error", false)?;
        let rerun = match table.get("on-restart").map(Value::as_str) {
            None => !prolog,
            Some(Some("rerun")) => true,
            Some(Some("fail")) => false,
            Some(_) => return Err(table.wrong("on-restart must be \"rerun\" or \"fail\"")),
        };
        Ok(Self {
            bracket,
            program,
            args: command,
            timeout: (timeout > 0.0 && timeout.is_finite()).then_some(timeout),
            kill_timeout: if kill_timeout > 0.0 { kill_timeout } else { KILL_TIMEOUT },
            per_rank: table.flag("per-rank", false)?,
            cancel_on_exception: table.flag("cancel-on-exception", prolog)?,
            rerun,
        })
    }
}

impl Script {
    /// Nothing to run, nor to begin again.
    pub(super) fn absent(bracket: Bracket) -> Self {
        Self {
            bracket,
            program: String::new(),
            args: Vec::new(),
            timeout: None,
            kill_timeout: KILL_TIMEOUT,
            per_rank: false,
            cancel_on_exception: false,
            rerun: false,
        }
    }

    /// On which ranks it runs for a job, and their hosts.
    pub(super) fn hosts(&self, job: JobRef<'_>) -> BTreeMap<u32, String> {
        let Some(resources) = job.resources() else {
            return BTreeMap::new();
        };
        let host = |rank| resources.host(rank).or_else(|| resources.nodelist().first());
        let host = |rank| (rank, host(rank).unwrap_or_default());
        match self.per_rank {
            true => resources.ranks().iter().map(host).collect(),
            // The manager's own, which all ranks share that it can run anything on.
            false => BTreeMap::from([host(0)]),
        }
    }

    /// The process for one rank of a job.
    pub(super) fn process(&self, job: JobRef<'_>, rank: u32) -> Process {
        let (id, user) = (job.id().to_string(), job.userid().to_string());
        let ranks = job.resources().map(|resources| resources.ranks().to_string());
        let ranks = ranks.unwrap_or_default();
        let mut process = Process::new(self.program.clone()).args(self.args.iter().cloned());
        for (name, value) in [("ID", &id), ("RANKS", &ranks), ("USERID", &user)] {
            process = process.env(format!("FLUX_JOB_{name}"), value.clone());
            process = process.env(format!("JOBTAP_JOB_{name}"), value.clone());
        }
        process.env("JOBTAP_RANK", rank.to_string())
    }

    pub(super) fn query(&self) -> Value {
        let command: Vec<&String> = [&self.program].into_iter().chain(&self.args).collect();
        json!({
            "command": command,
            "per_rank": self.per_rank,
            "cancel_on_exception": self.cancel_on_exception,
            "timeout": self.timeout.unwrap_or_default(),
            "kill-timeout": self.kill_timeout,
        })
    }
}

/// A table of the configuration, by its place.
struct Table<'v> {
    place: String,
    entries: &'v Map<String, Value>,
}

impl<'v> Table<'v> {
    fn new(place: String, value: &'v Value, keys: &[&str]) -> Result<Self, ConfError> {
        let Value::Object(entries) = value else {
            return Err(ConfError::new(format!("[{place}]: must be a table")));
        };
        let strays = entries.keys().map(String::as_str).filter(|key| !keys.contains(key));
        let strays: Vec<&str> = strays.collect();
        let table = Self { place, entries };
        if strays.is_empty() {
            return Ok(table);
        }
        let (count, names) = (strays.len(), strays.join(", "));
        Err(table.wrong(format!("{count} object item(s) left unpacked: {names}")))
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        self.entries.get(key)
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, ConfError> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| self.wrong(format!("{key} must be true or false")))
        })
    }

    fn wrong(&self, text: impl std::fmt::Display) -> ConfError {
        ConfError::new(format!("[{}]: {text}", self.place))
    }
}

/// Lines that match one of these are not logged; empty ones if nothing is said.
fn log_ignore(table: Option<&Value>) -> Result<Vec<Regex>, ConfError> {
    let empty = Value::Object(Map::new());
    let table = Table::new("job-manager.perilog".into(), table.unwrap_or(&empty), &["log-ignore"])?;
    let default = Value::from(vec![r"^\s*$"]);
    let Value::Array(entries) = table.get("log-ignore").unwrap_or(&default) else {
        return Err(table.wrong("error parsing log-ignore: not an array"));
    };
    let compiled = entries.iter().map(|entry| {
        let text = entry.as_str().ok_or_else(|| {
            table.wrong("error parsing log-ignore: all entries must be a string value")
        })?;
        let wrong =
            |_| table.wrong(format!("error parsing log-ignore: Failed to compile regex: {text}"));
        Regex::new(text).map_err(wrong)
    });
    compiled.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use jobtap_core::plugin::ConfTable as _;

    fn read(config: Value) -> Result<Config, String> {
        let watched = Watched::read_among_others(&config).unwrap();
        Config::new(watched).map_err(|error| error.text().to_owned())
    }

    fn refused(which: &str, table: Value) -> String {
        read(json!({"job-manager": {which: table}})).unwrap_err()
    }

    #[test]
    fn without_a_table_there_is_nothing_to_run() {
        let config = read(json!({"exec": {"imp": "/usr/libexec/imp"}})).unwrap();
        assert!(config.prolog.is_none() && config.epilog.is_none());
    }

    #[test]
    fn what_is_not_said_has_flux_s_defaults() {
        let tables = json!({"prolog": {"command": ["a", "b"]}, "epilog": {"kill-timeout": 0}});
        let config = read(json!({"job-manager": tables, "exec": {"imp": "imp"}})).unwrap();
        let prolog = config.prolog.unwrap();
        assert_eq!((&*prolog.program, &*prolog.args), ("a", &["b".to_owned()][..]));
        assert_eq!((prolog.timeout, prolog.kill_timeout), (Some(1800.0), 60.0));
        assert!(prolog.cancel_on_exception && !prolog.per_rank && !prolog.rerun);
        let epilog = config.epilog.unwrap();
        assert_eq!(
            (&*epilog.program, &*epilog.args),
            ("imp", &["run", "epilog"].map(str::to_owned)[..])
        );
        assert_eq!((epilog.timeout, epilog.kill_timeout), (None, 60.0));
        assert!(!epilog.cancel_on_exception && epilog.rerun);
    }

    #[test]
    fn no_time_limit_is_written_in_two_ways() {
        for timeout in ["0", "infinity"] {
            let table = json!({"command": ["true"], "timeout": timeout});
            let config = read(json!({"job-manager": {"prolog": table}})).unwrap();
            assert_eq!(config.prolog.unwrap().timeout, None);
        }
    }

    #[test]
    fn mistakes_are_told_in_flux_s_words() {
        for which in ["prolog", "epilog"] {
            for (table, text) in [
                (json!({"command": "true"}), "command must be an array".to_owned()),
                (json!({"command": ["true", 1]}), format!("malformed {which} command")),
                (json!({"command": []}), format!("malformed {which} command")),
                (json!({"command": ["true"], "timeout": "x"}), format!("invalid {which} timeout")),
                (json!({"command": ["true"], "timeout": -1}), format!("invalid {which} timeout")),
                (json!({}), "no command specified and exec.imp not defined".to_owned()),
                (json!({"comand": []}), "1 object item(s) left unpacked: comand".to_owned()),
                (
                    json!({"command": ["true"], "per-rank": 1}),
                    "per-rank must be true or false".to_owned(),
                ),
                (json!(5), "must be a table".to_owned()),
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
