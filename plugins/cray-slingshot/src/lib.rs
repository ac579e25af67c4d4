//! `cray-slingshot`: reserves virtual network ids (VNIs) of Slingshot for jobs. The shell's plugin reads them from the
//! event `cray-slingshot`. A job asks for another number with `-o cray-slingshot.vnicount=N`, or for none with
//! `-o cray-slingshot=off`.
//!
//! ```toml
//! [cray-slingshot]
//! vni-pool = "1024-65535"
//! vnis-per-job = 1         # 0 to 4
//! vni-reserve-fatal = true # whether a job without free ids fails
//! ```

mod pool;

use jobtap_core::job::Encoding;
use jobtap_core::json_type;
use jobtap_core::prelude::*;
use jobtap_core::resource::Idset;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use self::pool::Pool;

/// The name of the plugin, of its table, its event, its shell option and its exceptions.
const NAME: &str = "cray-slingshot";
const EVENT: EventName = event_name!("cray-slingshot");

/// The ids that the network doesn't keep for itself.
const VALID: &str = "0,2-9,11-65535";

/// The configuration of the instance, the part that this plugin reads.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Watched {
    #[serde(default, rename = "cray-slingshot")]
    table: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    vni_pool: String,
    vnis_per_job: i64,
    vni_reserve_fatal: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let vni_pool = "1024-65535".to_owned();
        Self { vni_pool, vnis_per_job: 1, vni_reserve_fatal: true }
    }
}

/// The ids of a job. They are stored with it, so that no other job gets them after a restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ids(Vec<u32>);

/// The plugin.
#[derive(Debug, Default)]
pub struct CraySlingshot {
    settings: Settings,
    pool: Pool,
}

/// What a job asks for.
enum Asked {
    Off,
    Count(i64),
}

#[jobtap_plugin(name = "cray-slingshot", load = "by-name", data = Ids)]
impl CraySlingshot {
    #[on("conf.update")]
    fn configured(&mut self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        let table = Value::Object(conf.into_inner().table.unwrap_or_default());
        let settings: Settings = serde_json::from_value(table).map_err(|error| {
            ConfError::new(format!("{NAME}: error unpacking conf.update arguments: {error}"))
        })?;
        if !(0..=4).contains(&settings.vnis_per_job) {
            let text = format!("{NAME}: {NAME}.vnis-per-job value out of range (0-4)");
            return Err(ConfError::new(text));
        }
        let pool = settings.vni_pool.parse::<Idset>();
        let pool = pool.map_err(|error| ConfError::new(format!("decode error: {error}")))?;
        let valid: Idset = VALID.parse().map_err(|_| ConfError::new(VALID))?;
        if !pool.is_subset(&valid) {
            return Err(ConfError::new(format!(
                "{} contains invalid VNIs, must be a subset of {VALID}",
                settings.vni_pool
            )));
        }
        self.pool.configure(pool);
        self.settings = settings;
        Ok(())
    }

    /// Takes the ids of a job that runs already.
    #[on("job.new")]
    fn known(&mut self, job: &Job, ids: Data<'_, Ids>) -> Result<(), HandlerError> {
        let Ids(taken) = ids.get()?;
        self.pool.take(job.id(), taken);
        Ok(())
    }

    #[on("job.state.run")]
    fn runs(
        &mut self,
        job: &Job,
        ids: Data<'_, Ids>,
        cx: Cx<'_, JobStateRun>,
    ) -> Result<(), HandlerError> {
        let count = match asked(job.jobspec().shell_option(NAME)) {
            Ok(Asked::Off) => return post(job, &[], "disabled by user request", &cx),
            Ok(Asked::Count(-1)) => self.settings.vnis_per_job,
            Ok(Asked::Count(count)) => count,
            Err(text) => {
                let text = format!("error parsing cray-slingshot shell options: {text}");
                return Ok(cx.fail(NAME, text)?);
            }
        };
        match self.pool.reserve(job.id(), count) {
            Ok(reserved) => {
                ids.set(&Ids(reserved.clone()))?;
                post(job, &reserved, "none requested", &cx)
            }
            Err(reason) if self.settings.vni_reserve_fatal => {
                Ok(cx.fail(NAME, reason.to_string())?)
            }
            Err(reason) => post(job, &[], &reason.to_string(), &cx),
        }
    }

    #[on("job.state.cleanup")]
    fn ended(&mut self, job: &Job, ids: Data<'_, Ids>) -> Result<(), HandlerError> {
        self.pool.release(job.id());
        Ok(ids.set(&Ids::default())?)
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        let Pool { universe, free, jobs, .. } = &self.pool;
        let jobs: Map<String, Value> =
            jobs.iter().map(|(id, ids)| (id.encode(encoding()), json!(ids))).collect();
        QueryData::of(&json!({
            "vnis-per-job": self.settings.vnis_per_job,
            "vni-reserve-fatal": self.settings.vni_reserve_fatal,
            "vnipool": { "universe": universe.to_string(), "free": free.to_string(), "jobs": jobs },
        }))
    }
}

/// How ids are written: as Flux writes them in this process's locale.
fn encoding() -> Encoding {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    match locale.to_ascii_lowercase().replace('-', "").ends_with("utf8") {
        true => Encoding::F58,
        false => Encoding::F58Plain,
    }
}

/// An option of the wrong type, in the words of the library with which the original reads it.
#[derive(Debug, thiserror::Error)]
#[error("Expected {expected}, got {got}")]
struct WrongType {
    expected: &'static str,
    got: &'static str,
}

/// What the shell option asks for.
fn asked(option: Option<&Value>) -> Result<Asked, WrongType> {
    let count = match option {
        None => None,
        Some(Value::String(word)) if word == "off" => return Ok(Asked::Off),
        Some(Value::Object(option)) => option.get("vnicount"),
        Some(other) => return Err(WrongType { expected: "object", got: json_type(other) }),
    };
    let Some(count) = count else { return Ok(Asked::Count(-1)) };
    let wrong = WrongType { expected: "integer", got: json_type(count) };
    count.as_i64().map(Asked::Count).ok_or(wrong)
}

/// Posts the ids of a job, with a reason if there are none.
fn post(
    job: &Job,
    ids: &[u32],
    reason: &str,
    cx: &Cx<'_, JobStateRun>,
) -> Result<(), HandlerError> {
    let context = match ids.is_empty() {
        true => json!({ "vnis": ids, "empty-reason": reason }),
        false => json!({ "vnis": ids }),
    };
    Ok(cx.post_event(job, EVENT, context)?)
}
