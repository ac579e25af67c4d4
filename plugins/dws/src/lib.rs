//! `dws`: holds jobs with `attributes.system.dw` (DW directives) while the service `dws` of flux-coral2 prepares storage
//! on rabbit nodes for them: in DEPEND, before they start, and after they have ended.
//!
//! | the job waits for | while the service handles | until it sends |
//! |---|---|---|
//! | the dependency `dws-create` | `dws.create` | `job-manager.dws.resource-update` |
//! | the prolog `dws-setup` | `dws.setup` | `job-manager.dws.prolog-remove` |
//! | the epilog `dws-epilog` | `dws.post_run` | `job-manager.dws.epilog-remove` |
//!
//! After a restart, or when the plugin is loaded again, a job goes on with what the service sends. A refusal of the service
//! that comes meanwhile is lost, as with the original: the job then waits until it is canceled.
//!
//! ```toml
//! [[job-manager.plugins]]
//! load = "dws"
//! conf.epilog-timeout = 600 # seconds; 0 for none
//! ```

mod sent;

use std::collections::BTreeMap;

use jobtap_core::eventlog::Event;
use jobtap_core::prelude::*;
use schemars::JsonSchema;
use serde_json::{Value, json};

use self::sent::{Answer, EpilogRemove, PrologRemove, ResourceUpdate, Step};

const DEPENDENCY: &str = "dws-create";
const PROLOG: &str = "dws-setup";
const EPILOG: &str = "dws-epilog";
const TIMEOUT: &str = "dws-epilog-timeout";

/// What the administrator sets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    /// How long an epilog may take, in seconds; 0 or less for any time.
    epilog_timeout: Option<f64>,
}

/// The response to what the service sends.
type Taken = Result<(), ServiceError>;

/// The plugin.
#[derive(Debug)]
pub struct Dws {
    epilog_timeout: f64,
    jobs: BTreeMap<JobId, Open>,
    remote: Remote<Self>,
}

/// What holds a job.
#[derive(Debug, Default)]
struct Open {
    prolog: Option<Token>,
    epilog: Option<Token>,
}

#[jobtap_plugin(name = "dws", load = "by-name")]
impl Dws {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Self {
        let given = settings.into_inner().epilog_timeout;
        if given.is_none() {
            remote.log(Level::Info, "failed to unpack config: epilog-timeout is not set");
        }
        let epilog_timeout = given.unwrap_or_default();
        remote.log(Level::Info, format!("epilog timeout = {epilog_timeout:.3}s"));
        Self { epilog_timeout, jobs: BTreeMap::new(), remote }
    }

    /// Takes up a job from before a restart, or a removal of this plugin.
    #[on("job.new")]
    fn known(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        if directives(job.into()).is_some() && job.state() != State::New {
            cx.subscribe(job)?;
            let (prolog, epilog) = (cx.prolog_reopen(job, PROLOG), cx.epilog_reopen(job, EPILOG));
            self.jobs.insert(job.id(), Open { prolog: prolog.ok(), epilog: epilog.ok() });
            self.limit_epilog(job.id());
        }
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(&mut self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        let Some(directives) = directives(job.into()) else { return Ok(()) };
        let tolerance = job.jobspec().attribute("dw_failure_tolerance");
        let Some(tolerance) = tolerance.map_or(Some(0), Value::as_i64) else {
            cx.fail("dws", "jobtap plugin failed to unpack args")?;
            return Err(HandlerError::new("dw_failure_tolerance is not an integer"));
        };
        cx.dependency_add(DEPENDENCY)?;
        cx.subscribe(job)?;
        let request = json!({
            "dw_directives": directives,
            "jobid": job.id(),
            "resources": job.jobspec().value().get("resources"),
            "userid": job.userid(),
            "failure_tolerance": tolerance,
        });
        let id = job.id();
        self.remote.rpc_then("dws.create", &request, move |_, cx, answer| {
            if let Some(reason) = Step::Create.failure(answer) {
                fail(&cx, id, DEPENDENCY, &reason);
            }
        });
        Ok(())
    }

    #[on("job.state.run")]
    fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        let Some(_) = directives(job.into()) else { return Ok(()) };
        cx.subscribe(job)?;
        let id = job.id();
        self.jobs.entry(id).or_default().prolog = Some(cx.prolog_start(PROLOG)?);
        let remote = self.remote.clone();
        self.remote.spawn(async move {
            let failure = match remote.kvs_lookup::<Value>(id.kvs_key("R")).await {
                Err(_) => Some("Failed to unpack R".to_owned()),
                Ok(resources) => {
                    let request = json!({"jobid": id, "R": resources});
                    Step::Setup.failure(remote.rpc::<Answer>("dws.setup", &request).await)
                }
            };
            remote.run(move |dws: &mut Self, cx| {
                if let Some(reason) = failure
                    && dws.jobs.get(&id).is_some_and(|open| open.prolog.is_some())
                {
                    fail(&cx, id, PROLOG, &reason);
                }
            });
        });
        Ok(())
    }

    #[on("job.event.exception")]
    fn exception(&mut self, job: &Job, entry: &EventEntry) {
        let Ok(Event::Exception(raised)) = entry.event() else { return };
        let Some(open) = self.jobs.get_mut(&job.id()).filter(|_| raised.is_fatal()) else { return };
        let request = json!({"jobid": job.id()});
        if let Some(prolog) = open.prolog.take() {
            prolog.finish(1);
        } else if open.epilog.is_some() && raised.kind != TIMEOUT {
            self.remote.rpc_no_response("dws.teardown", &request);
        } else if let Some(epilog) = open.epilog.take() {
            self.remote.rpc_no_response("dws.abort", &request);
            epilog.finish(1);
        }
    }

    #[on("job.state.cleanup")]
    fn cleanup(&mut self, job: &Job, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
        // If the job has started, its finish begins the epilog.
        if job.event_posted("start") { Ok(()) } else { self.begin_epilog(job, &cx, false) }
    }

    #[on("job.event.finish")]
    fn finished(&mut self, job: &Job, cx: Cx<'_, JobEventFinish>) -> Result<(), HandlerError> {
        self.begin_epilog(job, &cx, true)
    }

    #[on("job.state.inactive")]
    fn inactive(&mut self, job: &Job) {
        self.jobs.remove(&job.id());
    }

    /// Jobs wait for their prologs and epilogs until the plugin is loaded again.
    #[on("unload")]
    fn unload(&mut self, cx: Cx<'_, Unload>) {
        for open in std::mem::take(&mut self.jobs).into_values() {
            open.prolog.into_iter().chain(open.epilog).for_each(|token| cx.leave_open(token));
        }
    }

    #[service("resource-update")]
    fn resource_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        let ResourceUpdate { id, resources, errmsg, exclude } =
            sent::read(&sent, "resource-update", &cx)?;
        if let Some(reason) = errmsg {
            fail(&cx, id, "dws", &reason);
            return Ok(());
        }
        let job = cx.active_job(id).ok().filter(|job| job.state() == State::Depend);
        let refusal = || ServiceError::invalid("job not found in depend state");
        let job = job.and_then(ActiveJob::pending).ok_or_else(refusal)?;
        let constraints = constraints(job.into(), exclude);
        let updated = cx.jobspec_update_of(job, path!("resources"), resources).and_then(|()| {
            let path = path!("attributes.system.constraints");
            constraints.map_or(Ok(()), |value| cx.jobspec_update_of(job, path, value))
        });
        if updated.is_err() {
            let reason = "Internal error: failed to update jobspec";
            fail(&cx, id, "dws", reason);
            return Err(ServiceError::invalid(reason));
        }
        let missing = || ServiceError::invalid("Failed to remove dependency for job");
        cx.dependency_remove(job.dependency(DEPENDENCY).ok_or_else(missing)?);
        Ok(())
    }

    #[service("prolog-remove")]
    fn prolog_remove(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        let PrologRemove { id, variables } = sent::read(&sent, "prolog-remove", &cx)?;
        let job = cx.active_job(id)?;
        let context = json!({"variables": variables});
        if let Err(error) = cx.post_event(job, event_name!("dws_environment"), context) {
            fail(&cx, id, PROLOG, &error.to_string());
            return Err(error.into());
        }
        if let Some(prolog) = self.jobs.get_mut(&id).and_then(|open| open.prolog.take()) {
            prolog.finish(0);
        }
        Ok(())
    }

    #[service("epilog-remove")]
    fn epilog_remove(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        let EpilogRemove { id } = sent::read(&sent, "epilog-remove", &cx)?;
        if !cx.active_job(id).is_ok_and(|job| job.state() == State::Cleanup) {
            return Err(ServiceError::invalid("job not found in CLEANUP state"));
        }
        let epilog = self.take_epilog(id);
        epilog.ok_or_else(|| ServiceError::invalid("could not finish epilog"))?.finish(0);
        Ok(())
    }
}

impl Dws {
    fn has_epilog(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|open| open.epilog.is_some())
    }

    /// Ends the epilog of a job, if it has one, when its time is over.
    fn limit_epilog(&self, id: JobId) {
        if self.epilog_timeout > 0.0 {
            self.remote.after(self.epilog_timeout, move |dws, cx| {
                if let Ok(job) = cx.active_job(id)
                    && dws.has_epilog(id)
                {
                    cx.fail_job(job, TIMEOUT, "DWS epilog timed out");
                }
            });
        }
    }

    fn take_epilog(&mut self, id: JobId) -> Option<Token> {
        self.jobs.get_mut(&id)?.epilog.take()
    }

    fn begin_epilog<T: AllowsEpilog>(
        &mut self,
        job: &Job,
        cx: &Cx<'_, T>,
        run_started: bool,
    ) -> Result<(), HandlerError> {
        let id = job.id();
        if directives(job.into()).is_none() || self.has_epilog(id) {
            return Ok(());
        }
        self.jobs.entry(id).or_default().epilog = Some(cx.epilog_start(EPILOG)?);
        self.limit_epilog(id);
        let request = json!({"jobid": id, "run_started": run_started});
        self.remote.rpc_then("dws.post_run", &request, move |dws: &mut Self, cx, answer| {
            let Some(reason) = Step::PostRun.failure(answer) else { return };
            fail(&cx, id, EPILOG, &reason);
            // After the exception, which tells the service to tear the storage down while the epilog is open.
            cx.then(&dws.remote, move |dws, _| {
                if let Some(epilog) = dws.take_epilog(id) {
                    epilog.finish(1);
                }
            });
        });
        Ok(())
    }
}

/// The directives of a job that needs storage on rabbit nodes.
fn directives(job: JobRef<'_>) -> Option<&Value> {
    job.jobspec().attribute("dw")
}

/// Ends a job with what the service has reported.
fn fail<T: TopicSet>(cx: &Cx<'_, T>, id: JobId, kind: &str, reason: &str) {
    if let Ok(job) = cx.active_job(id) {
        cx.fail_job(job, kind, format!("DWS workflow interactions failed: {reason}"));
    }
}

/// The constraints of a job that must not run on the excluded nodes; `None` if they stay as they are.
fn constraints(job: JobRef<'_>, exclude: Value) -> Option<Value> {
    let exclude = Some(exclude).filter(|exclude| !exclude.is_null())?;
    let all = match job.jobspec().attribute("constraints") {
        Some(present) => json!({"and": [present, exclude]}),
        None => exclude,
    };
    // Such a job may use the rabbit nodes themselves.
    match job.jobspec().attribute("allow_rabbits").and_then(Value::as_bool) {
        Some(true) => Some(json!({"or": [{"properties": ["rabbit"]}, all]})),
        _ => Some(all),
    }
}
