//! `mf_priority`: the multi-factor priority plugin of flux-accounting, for jobtap's manager and for Flux.
//!
//! It computes priorities from the fair share of an association (a user in a bank), its bank, the job's queue and
//! urgency, and holds or refuses jobs beyond the limits of flux-accounting. The data comes from
//! `flux account-priority-update` by the services below, or at the start from what `flux account export-json` prints:
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "mf_priority" }]
//!
//! [plugins.mf_priority]
//! config-file = "/etc/jobtap/accounting.json"
//! ```
//!
//! | service | what it takes |
//! |---|---|
//! | `rec_update` | associations: added or changed, never removed |
//! | `rec_q_update`, `rec_proj_update`, `rec_bank_update` | queues, projects, banks: replaced |
//! | `rec_fac_update` | weights of factors: those that are named |
//! | `rec_config_update` | `deny_unknown_queues` |
//! | `reprioritize` | nothing: computes all priorities again, and releases jobs for which there is room now |
//!
//! Until data has come, all jobs are accepted and wait in PRIORITY.

mod accounting;
mod association;
mod checks;
mod factors;
mod limits;
mod size;
mod tracked;
mod updates;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jobtap_core::prelude::*;
use schemars::JsonSchema;
use serde_json::Value;

use self::accounting::{Accounting, Unknown};
use self::association::{Account, Demand, Stage};
use self::factors::Factors;
use self::limits::{Held, Limit, Released};
use self::tracked::{Attached, Named, Tracked, carries, is_pending, stage};
use self::updates::{Tables, UpdateError};

/// The type of this plugin's exceptions.
const NAME: &str = "mf_priority";

/// The value of `max_running_jobs` by which flux-accounting's tests mark data that makes no sense.
const NONSENSE: i64 = -1;

/// Differences below this between two values of fair share are none.
const SAME: f64 = 1e-9;

/// The error numbers of EPROTO and EINVAL.
const EPROTO: i32 = 71;
const EINVAL: i32 = 22;

/// The answer to data that is sent.
type Taken = Result<(), ServiceError>;

/// Where the data comes from at the start.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    /// All tables, in the form of `flux account export-json`.
    config: Option<Tables>,
    /// A file with these.
    config_file: Option<PathBuf>,
}

/// The plugin.
#[derive(Debug)]
pub struct MfPriority {
    accounting: Accounting,
    jobs: BTreeMap<JobId, Tracked>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "mf_priority", load = "by-name", load_order = "-state")]
impl MfPriority {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        let Settings { config, config_file } = settings.into_inner();
        let mut accounting = Accounting::default();
        let refuse = |reason: String| {
            ConfError::new(format!("error initializing plugin with JSON object: {reason}"))
        };
        if let Some(file) = config_file {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| refuse(format!("{}: {error}", file.display())))?;
            let tables: Tables = serde_json::from_str(&text)
                .map_err(|error| refuse(format!("{}: {error}", file.display())))?;
            accounting.load(&tables).map_err(|error| refuse(error.to_string()))?;
        }
        if let Some(tables) = config {
            accounting.load(&tables).map_err(|error| refuse(error.to_string()))?;
        }
        Ok(Self { accounting, jobs: BTreeMap::new(), remote })
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let named = Named::by(job.into()).map_err(|_| Reject::new("unable to unpack bank arg"))?;
        let account = match self.accounting.find(job.userid(), named.bank) {
            Ok(account) => account,
            Err(Unknown::NoData) => return Ok(()),
            Err(Unknown::NoAssociation) => return Err(Reject::new(no_association(job.userid()))),
        };
        let Some(association) = self.accounting.get(&account) else { return Ok(()) };
        if association.terms.active == 0 {
            let text = "user/bank entry has been disabled from flux-accounting DB";
            return Err(Reject::new(text));
        }
        self.accounting.check_queue(association, named.queue)?;
        self.accounting.check_project(association, named.project)?;
        // A job that is updated is counted already.
        if job.state() == State::New && association.is_full() {
            return Err(Reject::new("user has max active jobs"));
        }
        self.accounting.check_size(association, job, named.queue)
    }

    #[on("job.new")]
    fn accepted(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let named =
            Named::by(job.into()).map_err(|_| HandlerError::new("unable to unpack bank arg"))?;
        let mut tracked = Tracked::new(job.into(), Attached::Awaited, named.queue);
        if let Ok(account) = self.accounting.find(job.userid(), named.bank) {
            let found = self.accounting.get_mut(&account);
            if found.is_some_and(|found| found.terms.max_running_jobs == NONSENSE) {
                tracked.attached = Attached::Missing;
            } else {
                if is_pending(job) {
                    for (key, value) in self.defaults(&account, &named) {
                        cx.jobspec_update(key, value)?;
                    }
                }
                self.attach(&mut tracked, account.clone(), stage(job.into()));
                if let Some(demand) = tracked.demand.clone() {
                    self.hold_again(job.into(), &account, demand, &cx)?;
                }
            }
        }
        self.jobs.insert(job.id(), tracked);
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(&mut self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        let account = match self.attached(job) {
            Attached::Missing => return Ok(cx.fail(NAME, missing("job.state.depend"))?),
            Attached::Awaited => return Ok(()),
            Attached::Known(account) => account,
        };
        let Some(demand) = self.jobs.get(&job.id()).and_then(|tracked| tracked.demand.clone())
        else {
            let text = "job.state.depend: unable to count resources for job";
            return Ok(cx.fail(NAME, text)?);
        };
        let Some(association) = self.accounting.get(&account) else { return Ok(()) };
        let (queues, none) = (&self.accounting.queues, Released::default());
        // A plugin that is loaded later finds dependencies that an earlier one has added.
        let holds = |limit: &Limit| {
            carries(job.into(), *limit) || !limit.lets_pass(&demand, association, queues, &none)
        };
        let limits: Vec<Limit> = Limit::ALL.into_iter().filter(holds).collect();
        for limit in &limits {
            cx.dependency_add(limit.dependency())?;
        }
        self.hold(&account, Held { id: job.id(), demand, limits });
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(
        &mut self,
        job: &Job,
        cx: Cx<'_, (JobStatePriority, JobPriorityGet)>,
    ) -> Result<Priority, HandlerError> {
        let account = match self.attached(job) {
            Attached::Known(account) => account,
            Attached::Missing => {
                cx.fail(NAME, missing("job.state.priority"))?;
                return Ok(Priority::UNAVAILABLE);
            }
            Attached::Awaited => {
                let named = Named::by(job.into())
                    .map_err(|_| HandlerError::new("unable to unpack bank arg"))?;
                match self.accounting.find(job.userid(), named.bank) {
                    Ok(account) => {
                        for (key, value) in self.defaults(&account, &named) {
                            cx.jobspec_update_of(job, key, value)?;
                        }
                        self.attach_late(job.into(), account.clone());
                        account
                    }
                    Err(Unknown::NoData) => return Ok(Priority::UNAVAILABLE),
                    Err(Unknown::NoAssociation) => {
                        cx.fail(NAME, no_association(job.userid()))?;
                        return Ok(Priority::UNAVAILABLE);
                    }
                }
            }
        };
        if let Some(forced) = job.urgency().forced_priority() {
            return Ok(Priority::new(forced));
        }
        let queue = job.jobspec().attribute("queue").and_then(Value::as_str);
        let bank_factor = self.accounting.bank_factor(&account.bank);
        let Some(association) = self.accounting.get(&account) else {
            return Ok(Priority::UNAVAILABLE);
        };
        // If the queue has been closed to the job since, it ranks as if it had none.
        let queue_factor =
            self.accounting.queue_factor(&association.terms, queue).unwrap_or_default();
        let fairshare = association.terms.fairshare;
        let factors = Factors { fairshare, queue: queue_factor, bank: bank_factor };
        let points = factors.points(&self.accounting.weights, job.urgency());
        if let Some(association) = self.accounting.get_mut(&account) {
            association.queue_factor = queue_factor;
        }
        if let Some(tracked) = self.jobs.get_mut(&job.id())
            && tracked.told.is_none_or(|told| (told - fairshare).abs() >= SAME)
        {
            tracked.told = Some(fairshare);
            cx.memo(job, "fairshare", fairshare)?;
        }
        Ok(Priority::clamped(points))
    }

    #[on("job.state.sched")]
    fn scheduled(&mut self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
        if self.attached(job) == Attached::Missing {
            return Ok(cx.fail(NAME, missing("job.state.sched"))?);
        }
        self.move_to(job.id(), Stage::Sched);
        Ok(())
    }

    #[on("job.state.run")]
    fn runs(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        match self.attached(job) {
            Attached::Missing => Ok(cx.fail(NAME, missing("job.state.run"))?),
            Attached::Awaited => Ok(()),
            Attached::Known(account) => {
                self.move_to(job.id(), Stage::Running);
                self.accounting.release(&account, &cx);
                Ok(())
            }
        }
    }

    #[on("job.state.inactive")]
    fn inactive(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        let Some(tracked) = self.jobs.remove(&job.id()) else { return };
        let Attached::Known(account) = &tracked.attached else { return };
        self.discount(account, &tracked);
        self.take_held(account, job.id());
        if tracked.stage != Stage::Waiting {
            self.accounting.release(account, &cx);
        }
    }

    #[on("job.update.attributes.system.queue")]
    fn may_change_queue(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let named = Named::by(job.into()).map_err(|_| Reject::new("unable to unpack bank arg"))?;
        let account = match self.accounting.find(job.userid(), named.bank) {
            Ok(account) => account,
            Err(_) => return Err(Reject::new(no_association(job.userid()))),
        };
        let queue: String = request.read()?;
        let association = self.accounting.get(&account);
        let factor =
            association.map(|found| self.accounting.queue_factor(&found.terms, Some(&queue)));
        match factor.flatten() {
            Some(_) => Ok(Update::allow()),
            None => Err(Reject::new(format!("mf_priority: queue not valid for user: {queue}"))),
        }
    }

    #[on("job.update.attributes.system.bank")]
    fn may_change_bank(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let bank: String = request.read()?;
        let user = job.userid();
        let account = self.accounting.find(user, Some(&bank)).map_err(|unknown| {
            Reject::new(match unknown {
                Unknown::NoData => {
                    "update_bank: plugin still waiting on flux-accounting data".to_owned()
                }
                Unknown::NoAssociation => format!(
                    "update_bank: cannot find flux-accounting entry for uid/bank: {user}/{bank}"
                ),
            })
        })?;
        let Some(association) = self.accounting.get(&account) else { return Ok(Update::allow()) };
        if association.is_full() {
            return Err(Reject::new("new bank is already at max-active-jobs limit"));
        }
        let most = association.terms.max_running_jobs;
        if most > 0 && association.used.run_jobs >= most {
            return Err(Reject::new(format!(
                "updating to bank {bank} while it is already at max-run-jobs limit is not allowed; try again later"
            )));
        }
        Ok(Update::allow())
    }

    #[on("job.update")]
    fn updated(
        &mut self,
        job: &Job,
        updates: Updates<'_>,
        cx: Cx<'_, JobUpdate>,
    ) -> Result<(), HandlerError> {
        let Some(mut tracked) = self.jobs.remove(&job.id()) else { return Ok(()) };
        let text = |key: &str| updates.get(key).and_then(Value::as_str);
        if let Attached::Known(account) = tracked.attached.clone() {
            self.discount(&account, &tracked);
            let held = self.take_held(&account, job.id());
            if let Some(queue) = text("attributes.system.queue")
                && let Some(demand) = &mut tracked.demand
            {
                queue.clone_into(&mut demand.queue);
            }
            let bank = text("attributes.system.bank").unwrap_or(&account.bank);
            let (account, is_known) = match self.accounting.find(job.userid(), Some(bank)) {
                Ok(found) => (found, true),
                Err(_) => (account, false),
            };
            // The limits that hold it are from now on those of its new association and queue.
            if let (Some(held), Some(demand)) = (held, tracked.demand.clone()) {
                self.hold(&account, Held { demand, ..held });
            }
            let stage = tracked.stage;
            self.attach(&mut tracked, account.clone(), stage);
            self.accounting.release(&account, &cx);
            if !is_known && let Ok(active) = cx.active_job(job.id()) {
                let text = format!("job.update: {}", no_association(job.userid()));
                cx.fail_job(active, NAME, text);
            }
        }
        self.jobs.insert(job.id(), tracked);
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&self.accounting.shown())
    }

    #[service("rec_update")]
    fn rec_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        let taken = self.take(&sent, &cx, Accounting::update_associations);
        self.catch_up(&cx);
        taken
    }

    #[service("rec_q_update")]
    fn rec_q_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        self.take(&sent, &cx, Accounting::update_queues)
    }

    #[service("rec_proj_update")]
    fn rec_proj_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        self.take(&sent, &cx, Accounting::update_projects)
    }

    #[service("rec_bank_update")]
    fn rec_bank_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        self.take(&sent, &cx, Accounting::update_banks)
    }

    #[service("rec_fac_update")]
    fn rec_fac_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        self.take(&sent, &cx, Accounting::update_factors)
    }

    #[service("rec_config_update")]
    fn rec_config_update(&mut self, sent: Request<Value>, cx: Cx<'_, Service>) -> Taken {
        self.take(&sent, &cx, Accounting::update_config)
    }

    /// All jobs get their priorities first, and then held jobs are released: the limits see what these priorities have
    /// changed.
    #[service("reprioritize")]
    fn reprioritize(&mut self, cx: Cx<'_, Service>) {
        cx.reprioritize_all();
        self.remote.run(|plugin: &mut Self, cx| plugin.accounting.release_all(&cx));
    }
}

impl MfPriority {
    /// Takes the data of a request, and logs what is wrong with it.
    fn take(
        &mut self,
        sent: &Value,
        cx: &Cx<'_, Service>,
        update: fn(&mut Accounting, &Value) -> Result<(), UpdateError>,
    ) -> Taken {
        let refuse = |errno, text: String| {
            cx.log(Level::Error, text.clone());
            ServiceError::new(errno, text)
        };
        let no_data = "failed to unpack custom_priority.trigger msg: Protocol error";
        let data = sent.get("data").ok_or_else(|| refuse(EPROTO, no_data.to_owned()))?;
        update(&mut self.accounting, data)
            .map_err(|error| refuse(EINVAL, format!("mf_priority unpack: {error}")))
    }

    /// The bank and the project of a job that names none.
    fn defaults(&self, account: &Account, named: &Named<'_>) -> Vec<(JobspecPath, String)> {
        let project = self.accounting.get(account).map(|found| found.terms.def_project.as_str());
        let project = project.filter(|name| named.project.is_none() && !name.is_empty());
        let bank = named.bank.is_none().then_some(account.bank.as_str());
        let bank = bank.map(|bank| (path!("attributes.system.bank"), bank.to_owned()));
        let project = project.map(|name| (path!("attributes.system.project"), name.to_owned()));
        bank.into_iter().chain(project).collect()
    }

    /// Notes that limits hold a job.
    fn hold(&mut self, account: &Account, held: Held) {
        self.take_held(account, held.id);
        if let Some(association) = self.accounting.get_mut(account)
            && !held.limits.is_empty()
        {
            association.held.push(held);
        }
    }

    /// Forgets that limits hold a job.
    fn take_held(&mut self, account: &Account, id: JobId) -> Option<Held> {
        let held = &mut self.accounting.get_mut(account)?.held;
        let place = held.iter().position(|known| known.id == id)?;
        Some(held.remove(place))
    }

    /// Counts jobs from before a restart that have waited for data, and that nothing else will ask about: those in PRIORITY
    /// and SCHED are counted when they get their priorities. Errors concern single jobs, which stay as they are.
    fn catch_up(&mut self, cx: &Cx<'_, Service>) {
        let awaited = |(_, tracked): &(&JobId, &Tracked)| tracked.attached == Attached::Awaited;
        let ids: Vec<JobId> = self.jobs.iter().filter(awaited).map(|(id, _)| *id).collect();
        for job in ids.into_iter().filter_map(|id| cx.job(id).ok()) {
            if !matches!(job.state(), State::Depend | State::Run | State::Cleanup) {
                continue;
            }
            let Ok(named) = Named::by(job) else { continue };
            let Ok(account) = self.accounting.find(job.userid(), named.bank) else { continue };
            self.attach_late(job, account.clone());
            let demand = self.jobs.get(&job.id()).and_then(|tracked| tracked.demand.clone());
            if let Some(demand) = demand
                && let Err(error) = self.hold_again(job, &account, demand, cx)
            {
                cx.log(Level::Error, format!("job {}: {error}", job.id()));
            }
        }
    }

    /// Notes the dependencies that a job has from before a restart. They are added again, so that the manager knows whose
    /// they are.
    fn hold_again<T: TopicSet>(
        &mut self,
        job: JobRef<'_>,
        account: &Account,
        demand: Demand,
        cx: &Cx<'_, T>,
    ) -> Result<(), HandlerError> {
        let limits: Vec<Limit> =
            Limit::ALL.into_iter().filter(|limit| carries(job, *limit)).collect();
        let active = cx.active_job(job.id()).ok();
        if let Some(pending) = active.and_then(ActiveJob::pending) {
            for limit in &limits {
                cx.dependency_add_to(pending, limit.dependency())?;
            }
            self.hold(account, Held { id: job.id(), demand, limits });
        }
        Ok(())
    }

    fn attached(&self, job: &Job) -> Attached {
        let tracked = self.jobs.get(&job.id());
        tracked.map_or(Attached::Awaited, |tracked| tracked.attached.clone())
    }

    /// Counts a job in an association.
    fn attach(&mut self, tracked: &mut Tracked, account: Account, stage: Stage) {
        if let Some(association) = self.accounting.get_mut(&account) {
            association.used.active_jobs += 1;
            if let Some(demand) = &tracked.demand {
                association.count(stage, demand, 1);
            }
        }
        tracked.stage = stage;
        tracked.attached = Attached::Known(account);
    }

    /// The same for a job that has waited for data.
    fn attach_late(&mut self, job: JobRef<'_>, account: Account) {
        let known = self.jobs.remove(&job.id());
        let queue = job.jobspec().attribute("queue").and_then(Value::as_str);
        let mut tracked = known.unwrap_or_else(|| Tracked::new(job, Attached::Awaited, queue));
        self.attach(&mut tracked, account, stage(job));
        self.jobs.insert(job.id(), tracked);
    }

    fn discount(&mut self, account: &Account, tracked: &Tracked) {
        if let Some(association) = self.accounting.get_mut(account) {
            association.used.active_jobs -= 1;
            if let Some(demand) = &tracked.demand {
                association.count(tracked.stage, demand, -1);
            }
        }
    }

    /// Counts a job at another stage.
    fn move_to(&mut self, id: JobId, stage: Stage) {
        let Some(tracked) = self.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut tracked.stage, stage);
        if let (Attached::Known(account), Some(demand)) = (&tracked.attached, &tracked.demand)
            && let Some(association) = self.accounting.get_mut(account)
        {
            association.count(before, demand, -1);
            association.count(stage, demand, 1);
        }
    }
}

fn no_association(user: Uid) -> String {
    format!("cannot find user/bank or user/default bank entry for uid: {user}")
}

fn missing(topic: &str) -> String {
    format!("{topic}: bank info is missing")
}
