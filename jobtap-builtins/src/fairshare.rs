//! `fairshare`: computes priorities from several factors, above all how much of their share users have used.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "fairshare" }]
//!
//! [plugins.fairshare]
//! half-life = "7d"       # after this time recorded usage counts half; 0: no decay
//! recalc = "5m"          # how often all priorities are computed again
//! max-age = "7d"         # how long a job is pending until its age factor is 1
//! default-bank = "chem"  # the bank of a job that names none, if its user may use it
//! weights = { fairshare = 100000, age = 1000, size = 0, queue = 10000, qos = 10000, urgency = 1000 }
//! size = { full = 1024, favor = "large" }  # or "small"; full: cores of a job with factor 1
//! queues = { debug = 1.0, batch = 0.5 }    # the factor of each queue
//! qos = { normal = 0.5, urgent = 1.0 }     # the factor of each quality of service; others are refused
//!
//! [plugins.fairshare.banks]
//! science = { shares = 70 }
//! chem = { parent = "science", shares = 2, users = { 1001 = 3 }, everyone = 1 }
//! physics = { parent = "science", shares = 1, everyone = 1 }
//! ops = { shares = 30, users = { 1002 = 1 } }
//! ```
//!
//! A job names its bank and its quality of service with `--setattr=bank=NAME` and `--setattr=qos=NAME`. A
//! job whose user may not use the bank is refused. The priority is the weighted sum of factors from 0 to
//! 1; the weight `urgency` applies to each step of urgency above or below the default.
//!
//! A job uses its cores from its allocation until it is inactive. The usage of inactive jobs is stored in
//! the same commit as the end of the job, so that a crash of the manager neither loses it nor counts it
//! twice. The usage of running jobs is added when priorities are computed.
//!
//! `jobtap plugin query fairshare` shows the tree of banks and the factors of pending jobs. Guests can use
//! the services `fairshare.why` (for a job id) and `fairshare.mine` for their own jobs and banks.

mod conf;
mod factors;
mod tree;
mod usage;

use std::collections::BTreeMap;

use jobtap_core::plugin::DataError;
use jobtap_core::prelude::*;
use serde_json::{Map, Value, json};

use self::conf::Settings;
use self::factors::{Factors, attribute};
use self::tree::Tree;
use self::usage::{Account, Decay, Stored, Usage};

/// The parts of a jobspec that a job's priority depends on. They are kept for each active job, since the
/// manager keeps the jobspecs of waiting jobs as text, and parses one each time an attribute is read.
#[derive(Debug, Clone)]
struct Claim {
    account: Account,
    /// The factor of its quality of service.
    qos: f64,
}

/// The plugin `fairshare`.
#[derive(Debug)]
pub struct Fairshare {
    settings: Settings,
    remote: Remote<Self>,
    /// The usage of inactive jobs; `None` until it is loaded.
    usage: Option<Usage>,
    /// The claims of the active jobs, ordered by job id, since a floating-point sum of usage depends on the
    /// order.
    active: BTreeMap<JobId, Claim>,
    /// The last computed tree; `None` if it must be computed again, for instance for a new account.
    tree: Option<Tree>,
    ticks: bool,
}

#[jobtap_plugin(name = "fairshare", load = "by-name", instance_data = Stored)]
impl Fairshare {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        let settings = settings.into_inner().checked()?;
        Ok(Self {
            settings,
            remote,
            usage: None,
            active: BTreeMap::new(),
            tree: None,
            ticks: false,
        })
    }

    /// Starts the periodic computation once all existing jobs have been introduced.
    #[on("conf.update")]
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.ticks, true) {
            self.remote.run(|fairshare: &mut Self, cx| fairshare.recalculate(&cx));
        }
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        self.check_qos(job)?;
        let user = job.userid();
        let Some(bank) = attribute(job.into(), "bank") else {
            let bank = self.settings.bank_for(user).ok_or_else(|| {
                Reject::new(format!("bank: user {user} has no shares in any: ask for an account"))
            })?;
            // The bank is written to the jobspec, so that it stays the same when the configuration changes,
            // and so that `limits` knows it.
            if !self.settings.implied && job.state() == State::New {
                cx.jobspec_update(path!("attributes.system.bank"), bank)?;
            }
            return Ok(());
        };
        if self.settings.shares(bank, user).is_some() {
            return Ok(());
        }
        let banks = self.settings.banks_of(user).join(", ");
        Err(Reject::new(match banks.is_empty() {
            true => format!("bank: user {user} may not use {bank:?}, nor any other one"),
            false => format!("bank: user {user} may not use {bank:?}: there are {banks}"),
        }))
    }

    #[on("job.update.attributes.system.bank", "job.update.attributes.system.qos")]
    fn may_change(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let name = request.key.rsplit('.').next().unwrap_or_default();
        if job.resources().is_some() {
            return Err(Reject::new(format!("{name}: the job has its resources already")));
        }
        match request.value {
            Value::String(_) => Ok(Update::allow()),
            _ => Err(Reject::new(format!("{name} must be a text"))),
        }
    }

    #[on("job.new")]
    fn introduced(
        &mut self,
        job: &Job,
        stored: InstanceData<'_, Stored>,
        cx: Cx<'_, JobNew>,
    ) -> Result<(), HandlerError> {
        self.enter(job);
        self.load(&stored, cx.now())?;
        Ok(())
    }

    /// The bank or the resources of the job may have changed.
    #[on("job.update")]
    fn updated(&mut self, job: &Job, cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
        if !self.active.contains_key(&job.id()) {
            return Ok(());
        }
        self.enter(job);
        if matches!(job.state(), State::Priority | State::Sched) {
            let priority = self.points(job.into(), &cx).1.priority();
            cx.reprioritize(cx.active_job(job.id())?, priority)?;
        }
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&mut self, job: &Job, cx: Cx<'_, (JobStatePriority, JobPriorityGet)>) -> Priority {
        self.points(job.into(), &cx).1.priority()
    }

    #[on("job.state.inactive")]
    fn over(
        &mut self,
        job: &Job,
        stored: InstanceData<'_, Stored>,
        cx: Cx<'_, JobStateInactive>,
    ) -> Result<(), HandlerError> {
        let claim = self.active.remove(&job.id()).unwrap_or_else(|| self.claim(job.into()));
        let Some(used) = self.used(job.into(), cx.now()) else {
            return Ok(());
        };
        let usage = self.load(&stored, cx.now())?;
        usage.rebase(cx.now());
        usage.add(claim.account, used, cx.now());
        stored.set(&usage.stored())?;
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&mut self, cx: Cx<'_, PluginQuery>) -> Result<QueryData, HandlerError> {
        let waiting = self.active.keys().filter_map(|id| cx.job(*id).ok());
        let waiting: Vec<JobRef<'_>> =
            waiting.filter(|job| matches!(job.state(), State::Priority | State::Sched)).collect();
        let jobs: Map<String, Value> =
            waiting.into_iter().map(|job| (job.id().to_string(), self.explain(job, &cx))).collect();
        let root = &self.computed(&cx).root;
        QueryData::of(&json!({ "tree": root, "jobs": jobs }))
    }

    /// The factors of the priority of a job.
    #[service("why", role = "guest")]
    fn why(
        &mut self,
        id: Request<JobId>,
        caller: Caller,
        cx: Cx<'_, Service>,
    ) -> Result<Value, ServiceError> {
        let job = cx.job(*id)?;
        if !caller.owner && caller.userid != job.userid() {
            return Err(ServiceError::denied("guests can only access their own jobs"));
        }
        Ok(self.explain(job, &cx))
    }

    /// The share and the usage of the caller in each bank.
    #[service("mine", role = "guest")]
    fn mine(&mut self, caller: Caller, cx: Cx<'_, Service>) -> Value {
        let banks = self.settings.banks_of(caller.userid);
        let banks: Vec<String> = banks.into_iter().map(str::to_owned).collect();
        let tree = self.computed(&cx);
        let row = |bank: String| {
            let node = tree.account(&(bank.clone(), caller.userid)).cloned();
            (bank, json!(node))
        };
        banks.into_iter().map(row).collect()
    }
}

impl Fairshare {
    fn check_qos(&self, job: &Job) -> Result<(), Reject> {
        let known = &self.settings.qos;
        match attribute(job.into(), "qos") {
            Some(qos) if !known.is_empty() && !known.contains_key(qos) => {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                Err(Reject::new(format!("qos: {qos:?} is unknown: there are {}", names.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// Reads the bank and the quality of service of a job from its jobspec.
    fn claim(&self, job: JobRef<'_>) -> Claim {
        let user = job.userid();
        let bank = attribute(job, "bank").or_else(|| self.settings.bank_for(user));
        let qos = attribute(job, "qos").and_then(|qos| self.settings.qos.get(qos));
        Claim {
            account: (bank.unwrap_or_default().to_owned(), user),
            qos: qos.copied().unwrap_or_default(),
        }
    }

    /// Registers the claim of a job. If its account is not in the tree yet, the tree will be computed again.
    fn enter(&mut self, job: &Job) {
        let claim = self.claim(job.into());
        let account = &claim.account;
        let known = |tree: &mut Tree| tree.account(account).is_some();
        if self.settings.shares(&account.0, account.1).is_some() {
            self.tree.take_if(|tree| !known(tree));
        }
        self.active.insert(job.id(), claim);
    }

    /// Loads the stored usage unless it is loaded already.
    fn load(
        &mut self,
        stored: &InstanceData<'_, Stored>,
        now: Timestamp,
    ) -> Result<&mut Usage, DataError> {
        let usage = match self.usage.take() {
            Some(usage) => usage,
            None => {
                self.tree = None;
                let mut usage = Usage::restored(Decay::new(self.settings.half_life), stored.get()?);
                usage.rebase(now);
                usage
            }
        };
        Ok(self.usage.insert(usage))
    }

    /// The usage of a job up to now, with decay; `None` if the job had no resources.
    fn used(&self, job: JobRef<'_>, now: Timestamp) -> Option<f64> {
        let resources = job.resources()?;
        let since = Timestamp::from_secs(resources.starttime()?);
        let decay = Decay::new(self.settings.half_life);
        Some(resources.ncores() as f64 * decay.accrued(now - since))
    }

    fn recalculate(&mut self, cx: &Cx<'_, Later<Self>>) {
        if let Err(error) = self.load(&cx.instance_data(), cx.now()) {
            cx.log(Level::Error, format!("usage does not count: {error}"));
        }
        self.tree = None;
        cx.reprioritize_all();
        let next = cx.now() + self.settings.recalc.as_secs();
        self.remote.at(next, |fairshare: &mut Self, cx| fairshare.recalculate(&cx));
    }

    /// The tree, which is computed if necessary.
    fn computed<T: TopicSet>(&mut self, cx: &Cx<'_, T>) -> &Tree {
        let tree = match self.tree.take() {
            Some(tree) => tree,
            None => self.compute(cx),
        };
        self.tree.insert(tree)
    }

    fn compute<T: TopicSet>(&self, cx: &Cx<'_, T>) -> Tree {
        let now = cx.now();
        let mut usage = self.usage.as_ref().map(|usage| usage.at(now)).unwrap_or_default();
        for (id, claim) in &self.active {
            let used = cx.job(*id).ok().and_then(|job| self.used(job, now));
            *usage.entry(claim.account.clone()).or_default() += used.unwrap_or_default();
        }
        Tree::new(&self.settings, &usage)
    }

    /// The factors of a job, and their points.
    fn points<T: TopicSet>(&mut self, job: JobRef<'_>, cx: &Cx<'_, T>) -> (Factors, Factors) {
        let claim = self.claimed(job);
        // A bank that is no longer configured has no share.
        let standing = self.computed(cx).account(&claim.account).map_or(0.0, |node| node.factor);
        let factors = Factors::compute(job, standing, claim.qos, &self.settings, cx.now());
        (factors, factors.points(&self.settings.weights))
    }

    /// Returns the claim of a job. Reads the jobspec only if the job is not registered.
    fn claimed(&self, job: JobRef<'_>) -> Claim {
        self.active.get(&job.id()).cloned().unwrap_or_else(|| self.claim(job))
    }

    fn explain<T: TopicSet>(&mut self, job: JobRef<'_>, cx: &Cx<'_, T>) -> Value {
        let (factors, points) = self.points(job, cx);
        let account = self.claimed(job).account;
        let node = self.computed(cx).account(&account);
        json!({
            "bank": account.0,
            "user": node,
            "priority": job.priority(),
            "factors": factors,
            "points": points,
        })
    }
}
