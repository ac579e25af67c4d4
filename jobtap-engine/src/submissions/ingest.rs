//! `[ingest]` of the configuration: the changes and checks that a submission goes through before the
//! job-manager plugins see it (Flux's frobnicator and validator plugins).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::RequestError;
use crate::host::errno::{EINVAL, EOVERFLOW, EPERM};
use crate::job::Flags;
use crate::jobspec::Jobspec;
use crate::queue::Queues;
use crate::resource::{Constraint, Hostlist, ResourceSet};
use crate::sched::Pool;
use crate::settings::{SettingError, setting};
use crate::suggest::nearest;

/// The path that the frobnicator `constraints` changes, and no other does.
const CONSTRAINTS: &str = "attributes.system.constraints";
const FROBNICATORS: [&str; 2] = ["defaults", "constraints"];
/// `jobspec` and `schema` stand for what decoding a jobspec checks in any case.
const VALIDATORS: [&str; 4] = ["jobspec", "schema", "feasibility", "require-instance"];

const ARGS: &str = "ingest.validator.args";

/// The chosen changes and checks.
#[derive(Debug)]
pub(crate) struct Ingest {
    defaults: bool,
    constraints: bool,
    /// The hosts of constraints must exist.
    hosts: bool,
    feasibility: bool,
    require_instance: Option<RequireInstance>,
}

impl Default for Ingest {
    fn default() -> Self {
        let (feasibility, require_instance) = Default::default();
        Self { defaults: true, constraints: true, hosts: true, feasibility, require_instance }
    }
}

/// The minimum size at which a job must be an instance of its own; without a size, every job must. So a misspelled key
/// must be refused: it would concern every job.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RequireInstance {
    minnodes: Option<u64>,
    mincores: Option<u64>,
}

/// A stage with the plugins that the configuration names for it.
struct Stage {
    key: &'static str,
    disable: bool,
    plugins: Option<Vec<String>>,
}

/// Why the table can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    /// A value of a wrong type.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// There is no plugin of this name for the stage.
    #[error("{key}.plugins: there is no plugin {name:?}{} (one of {})", meant(name, known), known.join(", "))]
    UnknownPlugin { key: &'static str, name: String, known: &'static [&'static str] },
    /// The value of a validator's option.
    #[error("{ARGS}: {arg}: {value:?} is not a number")]
    NotANumber { arg: String, value: String },
    /// Another option of a validator.
    #[error(
        "{ARGS}: {0} is not served (only --require-version=1, --require-instance-minnodes=N and \
         --require-instance-mincores=N are)"
    )]
    NotServed(String),
}

fn meant(name: &str, known: &[&str]) -> String {
    let meant = nearest(name, known.iter().copied());
    meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default()
}

impl Stage {
    fn read(config: &Value, key: &'static str) -> Result<Self, SettingError> {
        let disable = setting(config, &format!("{key}.disable"))?.unwrap_or_default();
        Ok(Self { key, disable, plugins: setting(config, &format!("{key}.plugins"))? })
    }

    /// The plugins that run: those of the configuration, which must be `known`, or else the `usual` ones.
    fn chosen(
        self,
        usual: &[&str],
        known: &'static [&'static str],
    ) -> Result<Vec<String>, IngestError> {
        let usual = || usual.iter().map(|name| (*name).to_owned()).collect();
        let names = self.plugins.unwrap_or_else(usual);
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(IngestError::UnknownPlugin { key: self.key, name: name.clone(), known })
            }
            None if self.disable => Ok(Vec::new()),
            None => Ok(names),
        }
    }
}

impl Ingest {
    /// Reads `config`, the whole configuration.
    ///
    /// # Errors
    /// For unknown plugins and values of a wrong type; the text names the key.
    pub(crate) fn read(config: &Value) -> Result<Self, IngestError> {
        let frobnicator = Stage::read(config, "ingest.frobnicator")?;
        let validator = Stage::read(config, "ingest.validator")?;
        let changes = frobnicator.chosen(&FROBNICATORS, &FROBNICATORS)?;
        let checks = validator.chosen(&["jobspec"], &VALIDATORS)?;
        let least: RequireInstance =
            setting(config, "ingest.validator.require-instance")?.unwrap_or_default();
        let least = least.with_args(config)?;
        let has = |list: &[String], name: &str| list.iter().any(|chosen| chosen == name);
        let require = has(&checks, "require-instance").then_some(least);
        Ok(Self {
            defaults: has(&changes, "defaults"),
            constraints: has(&changes, "constraints"),
            hosts: has(&checks, "jobspec"),
            feasibility: has(&checks, "feasibility"),
            require_instance: require,
        })
    }
}

impl RequireInstance {
    /// Adds the options in `ingest.validator.args` that the table itself doesn't set.
    fn with_args(mut self, config: &Value) -> Result<Self, IngestError> {
        let args: Vec<String> = setting(config, ARGS)?.unwrap_or_default();
        for arg in args {
            let number = |value: &str| {
                let wrong =
                    |_| IngestError::NotANumber { arg: arg.clone(), value: value.to_owned() };
                value.parse::<u64>().map_err(wrong)
            };
            match arg.split_once('=') {
                // Only this version is accepted in any case.
                Some(("--require-version", "1" | "any")) => {}
                Some(("--require-instance-minnodes", value)) => {
                    let value = number(value)?;
                    self.minnodes = self.minnodes.or(Some(value));
                }
                Some(("--require-instance-mincores", value)) => {
                    let value = number(value)?;
                    self.mincores = self.mincores.or(Some(value));
                }
                _ => return Err(IngestError::NotServed(arg)),
            }
        }
        Ok(self)
    }

    fn check(self, jobspec: &Jobspec) -> Result<(), NoInstance> {
        let counts = jobspec.counts();
        let least = |least: Option<u64>, size: u64| least.is_some_and(|least| size >= least);
        let concerned = (self.minnodes.is_none() && self.mincores.is_none())
            || least(self.minnodes, counts.nnodes)
            || least(self.mincores, counts.ncores());
        if !concerned || is_instance(jobspec) {
            return Ok(());
        }
        Err(NoInstance)
    }
}

/// The job must be an instance of its own, and isn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Direct job submission disabled for this instance: submit a job that is an instance itself, as \
     `jobtap start COMMAND`"
)]
struct NoInstance;

/// Whether the job is an instance of its own, by its command or as a script of `flux batch`.
fn is_instance(jobspec: &Jobspec) -> bool {
    let word = |index: usize| jobspec.command().nth(index).unwrap_or_default();
    let program = word(0).rsplit('/').next().unwrap_or_default();
    let starts = ["jobtap", "flux"].contains(&program) && ["start", "broker"].contains(&word(1));
    starts || jobspec.attribute("batch").is_some()
}

/// A constraint names hosts that the instance doesn't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "host constraint contains invalid hosts: host{plural} '{hosts}' not found",
    plural = if .hosts.len() == 1 { "" } else { "s" }
)]
struct UnknownHosts {
    hosts: Hostlist,
}

/// Refuses a constraint that names hosts that the instance doesn't have: most likely they are misspelled.
fn hosts_exist(all: &ResourceSet, jobspec: &Jobspec) -> Result<(), UnknownHosts> {
    // A malformed constraint is refused with its own reason when the jobspec is decoded.
    let Some(Ok(constraint)) = jobspec.constraints().map(Constraint::from_value) else {
        return Ok(());
    };
    let hosts = all.unknown_hosts(&constraint.hosts());
    match hosts.is_empty() {
        true => Ok(()),
        false => Err(UnknownHosts { hosts }),
    }
}

/// Takes a jobspec through the frobnicator and the validator, and into its queue. Returns it with the
/// defaults and constraints of the queue.
pub(crate) fn complete_and_check(
    ingest: &Ingest,
    queues: &Queues,
    pool: &Pool,
    jobspec: Jobspec,
    flags: Flags,
) -> Result<Jobspec, RequestError> {
    let jobspec = ingest.frobnicate(queues, jobspec)?;
    ingest.validate(queues, pool, &jobspec, flags)?;
    queues.lookup(jobspec.queue())?.admits()?;
    Ok(jobspec)
}

impl Ingest {
    /// Adds what queue and policy say to a jobspec.
    fn frobnicate(&self, queues: &Queues, mut jobspec: Jobspec) -> Result<Jobspec, RequestError> {
        let mut changes = match (self.defaults, jobspec.queue()) {
            (true, _) => queues.adjust(&jobspec),
            // Without the plugin `defaults` the job is in no queue.
            (false, None) => Ok(Map::new()),
            (false, Some(_)) => queues.adjust(&jobspec).or_else(|_| Ok(Map::new())),
        }
        .map_err(|error| RequestError::new(EPERM, error.to_string()))?;
        changes.retain(|path, _| match path == CONSTRAINTS {
            true => self.constraints,
            false => self.defaults,
        });
        if !changes.is_empty() {
            let changed = jobspec.update_all(&changes);
            changed.map_err(|error| RequestError::new(EPERM, error.to_string()))?;
        }
        Ok(jobspec)
    }

    /// The refusal of a jobspec in Flux's words: Flux's frobnicator, which runs if it could change something, reads the
    /// jobspec before the validator does, and its errors begin with `invalid jobspec`.
    fn told(&self, queues: &Queues, text: String) -> String {
        match (self.defaults || self.constraints) && queues.may_adjust() {
            true => format!("invalid jobspec: {text}"),
            false => text,
        }
    }

    /// Does the checks that the configuration names. The owner of the instance can skip them.
    fn validate(
        &self,
        queues: &Queues,
        pool: &Pool,
        jobspec: &Jobspec,
        flags: Flags,
    ) -> Result<(), RequestError> {
        if flags.contains(Flags::NOVALIDATE) {
            return Ok(());
        }
        if let Some(require) = self.require_instance {
            require.check(jobspec).map_err(|error| RequestError::new(EINVAL, error.to_string()))?;
        }
        if self.hosts {
            let checked = hosts_exist(pool.inventory(), jobspec);
            let told = |error: UnknownHosts| self.told(queues, error.to_string());
            checked.map_err(|error| RequestError::new(EPERM, told(error)))?;
        }
        if self.feasibility {
            // The errno with which Flux's scheduler says so.
            let checked = pool.feasible(jobspec);
            checked.map_err(|error| RequestError::new(EOVERFLOW, error.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::JobspecBuilder;

    fn refusal(table: Value) -> String {
        Ingest::read(&json!({ "ingest": table })).err().unwrap().to_string()
    }

    #[test]
    fn options_of_validators_are_served_or_refused() {
        let read = |args: Value| {
            let plugins = json!(["jobspec", "require-instance"]);
            Ingest::read(&json!({"ingest": {"validator": {"plugins": plugins, "args": args}}}))
        };
        let least = read(json!(["--require-version=1", "--require-instance-minnodes=4"]));
        let least = least.unwrap().require_instance.unwrap();
        assert_eq!((least.minnodes, least.mincores), (Some(4), None));
        for (args, text) in [
            (json!(["--require-version=2"]), "ingest.validator.args: --require-version=2 is not"),
            (json!(["--strict"]), "ingest.validator.args: --strict is not served"),
            (
                json!(["--require-instance-mincores=x"]),
                "ingest.validator.args: --require-instance-mincores=x: \"x\" is not a number",
            ),
            (json!("--strict"), "ingest.validator.args: invalid type"),
        ] {
            let refused = read(args).err().unwrap().to_string();
            assert!(refused.starts_with(text), "{refused}");
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_by_name() {
        let text = refusal(json!({"validator": {"plugins": ["feasability"]}}));
        assert_eq!(
            text,
            "ingest.validator.plugins: there is no plugin \"feasability\", did you mean \
             \"feasibility\"? (one of jobspec, schema, feasibility, require-instance)"
        );
        let text = refusal(json!({"frobnicator": {"disable": "yes"}}));
        assert_eq!(
            text,
            "ingest.frobnicator.disable: invalid type: string \"yes\", expected a boolean"
        );
        assert_eq!(
            refusal(json!({"validator": 7})),
            "ingest.validator: must be a table, written once as [ingest.validator], not 7"
        );
        let text = refusal(json!({"validator": {"require-instance": {"minnode": 4}}}));
        assert_eq!(
            text,
            "ingest.validator.require-instance: unknown field `minnode`, expected `minnodes` or \
             `mincores`"
        );
    }

    #[test]
    fn a_disabled_validator_checks_nothing() {
        let table = json!({"validator": {"disable": true, "plugins": ["feasibility"]}});
        assert!(!Ingest::read(&json!({ "ingest": table })).unwrap().feasibility);
    }

    #[test]
    fn jobs_of_a_size_must_be_instances() {
        let checked = |least: Value, command: &[&str], ntasks: u64| {
            let require = RequireInstance::deserialize(least).unwrap();
            let builder = JobspecBuilder::new(command.iter().copied()).ntasks(ntasks);
            require.check(&builder.build().unwrap()).is_ok()
        };
        for (least, command, ntasks, ok) in [
            (json!({}), &["hostname"][..], 1, false),
            (json!({}), &["/usr/bin/flux", "start", "x"], 1, true),
            (json!({}), &["jobtap", "start"], 1, true),
            (json!({}), &["jobtap", "run"], 1, false),
            (json!({"mincores": 4}), &["hostname"], 3, true),
            (json!({"mincores": 4}), &["hostname"], 4, false),
            (json!({"minnodes": 1, "mincores": 9}), &["hostname"], 8, true),
        ] {
            assert_eq!(checked(least.clone(), command, ntasks), ok, "{least} {command:?} {ntasks}");
        }
    }
}
