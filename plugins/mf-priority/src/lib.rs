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
mod exports;
mod factors;
mod held;
mod limits;
mod size;
mod tracked;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jobtap_core::plugin::ConfDirectory;
use jobtap_core::prelude::*;
use schemars::JsonSchema;
use serde_json::Value;

use self::accounting::{Account, Accounting, Unknown};
use self::association::{Demand, Stage};
use self::factors::{Factors, OwnWeights};
use self::held::Held;
use self::limits::{Limit, Released};
use self::tracked::{Attached, Named, Tracked, carries, is_pending, stage};
use self::updates::{Tables, UpdateError};

/// The type of this plugin's exceptions.
const NAME: &str = "mf_priority";

/// The value of `max_running_jobs` by which flux-accounting's tests mark data that makes no sense.
const NONSENSE: i64 = -1;

/// Differences below this between two values of fair share are none.
const SAME: f64 = 1e-9;

/// Why a job is refused that names something other than text.
const NO_TEXT: &str = "unable to unpack bank arg";

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
    /// A file with these: what `flux account export-json` prints, the folder of `flux account export-db`, or the database.
    config_file: Option<PathBuf>,
    /// Weights in the place of those of the data.
    weights: OwnWeights,
}

/// The plugin.
#[derive(Debug)]
pub struct MfPriority {
    accounting: Accounting,
    jobs: BTreeMap<JobId, Tracked>,
    /// Those of them that wait for data, by user.
    awaiting: BTreeSet<(Uid, JobId)>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "mf_priority", load = "by-name", load_order = "-state")]
impl MfPriority {
    #[init]
    fn new(
        settings: Conf<Settings>,
        directory: ConfDirectory,
        remote: Remote<Self>,
    ) -> Result<Self, ConfError> {
        let Settings { config, config_file, weights } = settings.into_inner();
        let mut accounting = Accounting::default();
        accounting.own_weights = weights;
        if let Some(file) = config_file {
            let file = directory.resolve(&file)?;
            let tables = exports::read(&file).map_err(|error| ConfError::new(error.to_string()))?;
            let loaded = accounting.load(&tables);
            loaded.map_err(|error| ConfError::new(format!("{}: {error}", file.display())))?;
        }
        if let Some(tables) = config {
            accounting.load(&tables).map_err(|error| {
                ConfError::new(format!("error initializing plugin with JSON object: {error}"))
            })?;
        }
        let (jobs, awaiting) = Default::default();
        Ok(Self { accounting, jobs, awaiting, remote })
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let named = Named::by(job.into()).map_err(|_| Reject::new(NO_TEXT))?;
        let account = match self.accounting.find(job.userid(), named.bank) {
            Ok(account) => account,
            Err(Unknown::NoData) => return Ok(()),
            Err(Unknown::NoAssociation) => return Err(Reject::new(no_association(job.userid()))),
        };
        let Some(association) = self.accounting.get(account) else { return Ok(()) };
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
        let named = Named::by(job.into()).map_err(|_| HandlerError::new(NO_TEXT))?;
        let mut tracked = Tracked::new(job.into(), Attached::Awaited, named.queue);
        if let Ok(account) = self.accounting.find(job.userid(), named.bank) {
            let found = self.accounting.get_mut(account);
            if found.is_some_and(|found| found.terms.max_running_jobs == NONSENSE) {
                tracked.attached = Attached::Missing;
            } else {
                if is_pending(job) {
                    for (key, value) in self.defaults(account, &named) {
                        cx.jobspec_update(key, value)?;
                    }
                }
                self.attach(&mut tracked, account, stage(job.into()));
                if let Some(demand) = tracked.demand.clone() {
                    self.hold_again(job.into(), account, demand, &cx)?;
                }
            }
        } else {
            self.awaiting.insert((job.userid(), job.id()));
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
        let Some(association) = self.accounting.get(account) else { return Ok(()) };
        let (queues, none) = (&self.accounting.queues, Released::default());
        // A plugin that is loaded later finds dependencies that an earlier one has added.
        let holds = |limit: &Limit| {
            carries(job.into(), *limit) || !limit.lets_pass(&demand, association, queues, &none)
        };
        let limits: Vec<Limit> = Limit::ALL.into_iter().filter(holds).collect();
        for limit in &limits {
            cx.dependency_add(limit.dependency())?;
        }
        self.hold(account, job.id(), Held { demand, limits });
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
                let named = Named::by(job.into()).map_err(|_| HandlerError::new(NO_TEXT))?;
                match self.accounting.find(job.userid(), named.bank) {
                    Ok(account) => {
                        for (key, value) in self.defaults(account, &named) {
                            cx.jobspec_update_of(job, key, value)?;
                        }
                        self.attach_late(job.into(), account);
                        account
                    }
                    Err(Unknown::NoData) => {
                        // After a reload without data, a job that has its priority keeps it.
                        let present = job.priority().filter(|_| job.state() == State::Sched);
                        return Ok(present.map_or(Priority::UNAVAILABLE, Priority::new));
                    }
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
        let Self { accounting, jobs, .. } = self;
        let (Some(tracked), Some(association)) = (jobs.get_mut(&job.id()), accounting.get(account))
        else {
            return Ok(Priority::UNAVAILABLE);
        };
        // Not from the jobspec, which a manager keeps as text: it would be parsed for each of a hundred thousand jobs.
        let queue = tracked.demand.as_ref().map(|demand| demand.queue.as_str());
        // If the queue has been closed to the job since, it ranks as if it had none.
        let queue_factor = accounting.queue_factor(&association.terms, queue).unwrap_or_default();
        let bank_factor = accounting.bank_factor(&association.terms.bank);
        let fairshare = association.terms.fairshare;
        let factors = Factors { fairshare, queue: queue_factor, bank: bank_factor };
        let points = factors.points(&accounting.weights(), job.urgency());
        if let Some(association) = accounting.get_mut(account) {
            association.queue_factor = queue_factor;
        }
        if tracked.told.is_none_or(|told| (told - fairshare).abs() >= SAME) {
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
                self.accounting.release(account, &cx);
                Ok(())
            }
        }
    }

    #[on("job.state.inactive")]
    fn inactive(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        let Some(tracked) = self.jobs.remove(&job.id()) else { return };
        self.awaiting.remove(&(job.userid(), job.id()));
        let Attached::Known(account) = tracked.attached else { return };
        self.count(account, &tracked, -1);
        self.take_held(account, job.id());
        if tracked.stage != Stage::Waiting {
            self.accounting.release(account, &cx);
        }
    }

    #[on("job.update.attributes.system.queue")]
    fn may_change_queue(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let named = Named::by(job.into()).map_err(|_| Reject::new(NO_TEXT))?;
        let account = self.accounting.find(job.userid(), named.bank);
        let account = account.map_err(|_| Reject::new(no_association(job.userid())))?;
        let queue: String = request.read()?;
        let association = self.accounting.get(account);
        let factor =
            association.map(|found| self.accounting.queue_factor(&found.terms, Some(&queue)));
        let refusal = || Reject::new(format!("mf_priority: queue not valid for user: {queue}"));
        factor.flatten().map(|_| Update::allow()).ok_or_else(refusal)
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
        let Some(association) = self.accounting.get(account) else { return Ok(Update::allow()) };
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
        if let Attached::Known(account) = tracked.attached {
            self.count(account, &tracked, -1);
            let held = self.take_held(account, job.id());
            if let Some(queue) = text("attributes.system.queue")
                && let Some(demand) = &mut tracked.demand
            {
                queue.clone_into(&mut demand.queue);
            }
            let bank = text("attributes.system.bank");
            let found = bank.map(|bank| self.accounting.find(job.userid(), Some(bank)));
            let found = found.unwrap_or(Ok(account));
            let (account, is_known) = (found.unwrap_or(account), found.is_ok());
            // The limits that hold it are from now on those of its new association and queue.
            if let (Some(held), Some(demand)) = (held, tracked.demand.clone()) {
                self.hold(account, job.id(), Held { demand, ..held });
            }
            let stage = tracked.stage;
            self.attach(&mut tracked, account, stage);
            self.accounting.release(account, &cx);
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
        let mut changed = BTreeSet::new();
        let taken = self.take(&sent, &cx, |accounting, data| {
            accounting.update_associations(data, &mut changed)
        });
        self.catch_up(&changed, &cx);
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
        cx.then(&self.remote, |plugin, cx| plugin.accounting.release_all(&cx));
    }
}

impl MfPriority {
    /// Takes the data of a request, and logs what is wrong with it.
    fn take(
        &mut self,
        sent: &Value,
        cx: &Cx<'_, Service>,
        update: impl FnOnce(&mut Accounting, &Value) -> Result<(), UpdateError>,
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
    fn defaults(&self, account: Account, named: &Named<'_>) -> Vec<(JobspecPath, String)> {
        let terms = self.accounting.get(account).map(|found| &found.terms);
        let bank = terms.filter(|_| named.bank.is_none()).map(|terms| terms.bank.clone());
        let bank = bank.map(|bank| (path!("attributes.system.bank"), bank));
        let project = terms.map(|terms| &terms.def_project);
        let project = project.filter(|name| named.project.is_none() && !name.is_empty());
        let project = project.map(|name| (path!("attributes.system.project"), name.clone()));
        bank.into_iter().chain(project).collect()
    }

    /// Notes that limits hold a job.
    fn hold(&mut self, account: Account, id: JobId, held: Held) {
        if let Some(association) = self.accounting.get_mut(account) {
            association.held.insert(id, held);
        }
    }

    /// Forgets that limits hold a job.
    fn take_held(&mut self, account: Account, id: JobId) -> Option<Held> {
        self.accounting.get_mut(account)?.held.remove(id)
    }

    /// Counts jobs from before a restart that have waited for data, and that nothing else will ask about: those in PRIORITY
    /// and SCHED are counted when they get their priorities. Errors concern single jobs, which stay as they are.
    fn catch_up(&mut self, changed: &BTreeSet<Uid>, cx: &Cx<'_, Service>) {
        const FIRST: JobId = JobId::new(0);
        const LAST: JobId = JobId::new(u64::MAX);
        let jobs_of = |user: &Uid| self.awaiting.range((*user, FIRST)..=(*user, LAST));
        let ids: Vec<JobId> = changed.iter().flat_map(jobs_of).map(|(_, id)| *id).collect();
        for job in ids.into_iter().filter_map(|id| cx.job(id).ok()) {
            if !matches!(job.state(), State::Depend | State::Run | State::Cleanup) {
                continue;
            }
            let Ok(named) = Named::by(job) else { continue };
            let Ok(account) = self.accounting.find(job.userid(), named.bank) else { continue };
            self.attach_late(job, account);
            let demand = self.jobs.get(&job.id()).and_then(|tracked| tracked.demand.clone());
            if let Some(demand) = demand
                && let Err(error) = self.hold_again(job, account, demand, cx)
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
        account: Account,
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
            self.hold(account, job.id(), Held { demand, limits });
        }
        Ok(())
    }

    fn attached(&self, job: &Job) -> Attached {
        let tracked = self.jobs.get(&job.id());
        tracked.map_or(Attached::Awaited, |tracked| tracked.attached)
    }

    /// Counts a job in an association.
    fn attach(&mut self, tracked: &mut Tracked, account: Account, stage: Stage) {
        (tracked.stage, tracked.attached) = (stage, Attached::Known(account));
        self.count(account, tracked, 1);
    }

    /// The same for a job that has waited for data.
    fn attach_late(&mut self, job: JobRef<'_>, account: Account) {
        let known = self.jobs.remove(&job.id());
        self.awaiting.remove(&(job.userid(), job.id()));
        let queue = job.jobspec().attribute("queue").and_then(Value::as_str);
        let mut tracked = known.unwrap_or_else(|| Tracked::new(job, Attached::Awaited, queue));
        self.attach(&mut tracked, account, stage(job));
        self.jobs.insert(job.id(), tracked);
    }

    /// Adds (`by` is 1) or removes (-1) a job.
    fn count(&mut self, account: Account, tracked: &Tracked, by: i64) {
        if let Some(association) = self.accounting.get_mut(account) {
            association.used.active_jobs += by;
            if let Some(demand) = &tracked.demand {
                association.count(tracked.stage, demand, by);
            }
        }
    }

    /// Counts a job at another stage.
    fn move_to(&mut self, id: JobId, stage: Stage) {
        let Some(tracked) = self.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut tracked.stage, stage);
        if let (Attached::Known(account), Some(demand)) = (tracked.attached, &tracked.demand)
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
