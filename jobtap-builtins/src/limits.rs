//! `limits`: limits the jobs and the nodes of each user, bank and queue.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "limits" }]
//!
//! [plugins.limits]
//! user = { running = 20, pending = 500, submitted-per-hour = 1000, nodes = 64 }  # for each user
//! users.1001 = { running = 100 }       # for this user; other keys as above
//! users.0 = { submitted-per-hour = -1 } # no limit
//! banks.chem = { nodes = 128 }
//! queues.debug = { running = 4 }
//! ```
//!
//! Jobs that exceed `pending` or `submitted-per-hour`, and jobs that ask for more than `nodes`, are refused.
//! Jobs that exceed `running` or `nodes` stay in DEPEND with the dependency `limits`, until they have no
//! other dependencies and are within the limits. Jobs with higher urgency go first, then older jobs. A job
//! that needs many nodes is not overtaken by smaller ones of the same user, bank or queue.
//!
//! A job that also waits for licenses has to be within its limits first, because licenses are shared by
//! most jobs and so taken last.
//!
//! A job counts as running as soon as it may be scheduled, so that the scheduler can't start more jobs than
//! the limit. The bank of a job is `attributes.system.bank`; `fairshare`, which sets it, has to be loaded
//! before this plugin. A job without a number of nodes counts as one node until it has its resources.
//!
//! All counts are derived from the jobs, so a restarted manager counts them again. Jobs that were purged
//! within an hour of their submission then no longer count.

mod conf;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use self::conf::{Scope, Settings};
use crate::tokens::{Demand, Tokens, is_license};

/// The dependency of jobs that exceed a limit.
const HELD: &str = "limits";
const HOUR: f64 = 3600.0;

/// What is counted for a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Counted {
    Jobs,
    Nodes,
}

type Key = (Scope, Counted);

/// The plugin `limits`.
#[derive(Debug)]
pub struct Limits {
    settings: Settings,
    /// The jobs that are within the limits and may be scheduled, and the jobs that wait for that.
    running: Tokens<Key>,
    /// The jobs without resources.
    pending: Tokens<Scope>,
    /// The jobs that were submitted within the last hour, by id and so in the order of submission.
    recent: HashMap<Scope, BTreeMap<JobId, Timestamp>>,
    remote: Remote<Self>,
    /// Whether the admission of waiting jobs is scheduled.
    admission_scheduled: bool,
}

#[jobtap_plugin(name = "limits", load = "by-name", after = ["fairshare"])]
impl Limits {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        let settings = settings.into_inner();
        settings.check()?;
        Ok(Self {
            settings,
            running: Tokens::default(),
            pending: Tokens::default(),
            recent: HashMap::new(),
            remote,
            admission_scheduled: false,
        })
    }

    #[on("job.validate")]
    fn validate(&mut self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        for scope in Scope::all_for_job(job.into()) {
            self.check_size(job, &scope)?;
            // An accepted job that is updated is counted already.
            if job.state() == State::New {
                self.check_counts(&scope, cx.now())?;
            }
        }
        Ok(())
    }

    #[on("job.new")]
    fn counted(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        self.note_submission(job, cx.now());
        let live = cx.active_job(job.id());
        let pending = live.as_ref().ok().and_then(|live| live.pending());
        if job.state() == State::New || pending.is_some() {
            let scopes = Scope::all_for_job(job.into()).map(|scope| (scope, 1));
            self.pending.hold(job.id(), scopes.collect());
        }
        match (job.state(), pending) {
            (State::New, _) => {}
            (State::Depend, Some(pending)) if job.dependency(HELD).is_some() => {
                // The dependency must be added again, so that the manager knows that it belongs to this
                // plugin.
                cx.dependency_add_to(pending, HELD)?;
                cx.subscribe(pending)?;
                self.enqueue(job);
            }
            _ => self.running.hold(job.id(), demand(job.into())),
        }
        Ok(())
    }

    /// Counts inactive jobs again after a restart, if they were submitted within the last hour.
    #[on("job.inactive-add")]
    fn restored(&mut self, job: &Job, cx: Cx<'_, JobInactiveAdd>) {
        self.note_submission(job, cx.now());
    }

    #[on("job.state.depend")]
    fn depend(
        &mut self,
        job: &Job,
        prev: PrevState,
        cx: Cx<'_, JobStateDepend>,
    ) -> Result<(), HandlerError> {
        let (id, demand) = (job.id(), demand(job.into()));
        if demand.keys().all(|key| capacity(&self.settings, key).is_none()) {
            self.running.hold(id, demand);
            return Ok(());
        }
        // While existing jobs are being introduced to a plugin that was loaded later, the counts are
        // incomplete.
        let complete = prev.0.is_some();
        if complete && is_next(job) {
            self.running.wait((Reverse(job.urgency()), id), demand);
            self.admit(&cx);
            if self.running.held(id).is_some() {
                return Ok(());
            }
        }
        cx.dependency_add(HELD)?;
        cx.subscribe(job)?;
        if !self.running.waits(id) {
            self.enqueue_or_release(job);
        }
        Ok(())
    }

    /// Called when another dependency of the job was removed, or its urgency has changed.
    #[on("job.event.dependency-remove", "job.event.urgency")]
    fn moved(&mut self, job: &Job) {
        self.enqueue(job);
    }

    /// Called when the bank, the queue or the size of the job may have changed.
    #[on("job.update")]
    fn updated(&mut self, job: &Job) {
        let id = job.id();
        if self.pending.held(id).is_some() {
            self.pending.hold(id, Scope::all_for_job(job.into()).map(|scope| (scope, 1)).collect());
        }
        if self.running.held(id).is_some() {
            self.running.hold(id, demand(job.into()));
            self.schedule_admission();
        } else {
            self.enqueue(job);
        }
    }

    #[on("job.state.run")]
    fn allocated(&mut self, job: &Job) {
        self.pending.release(job.id());
        // The job may have been allocated more nodes than it had asked for.
        self.running.hold(job.id(), demand(job.into()));
        self.schedule_admission();
    }

    #[on("job.state.cleanup")]
    fn ended(&mut self, job: &Job) {
        self.pending.release(job.id());
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job) {
        self.pending.release(job.id());
        if self.running.release(job.id()) {
            self.schedule_admission();
        }
    }

    #[on("plugin.query")]
    fn query(&mut self, cx: Cx<'_, PluginQuery>) -> Result<QueryData, HandlerError> {
        let users = self.running.all_out().map(|((scope, _), _)| scope.clone());
        let scopes = users.chain(self.pending.all_out().map(|(scope, _)| scope.clone()));
        let scopes: BTreeSet<Scope> = scopes.chain(self.recent.keys().cloned()).collect();
        let row = |scope: Scope| (scope.to_string(), self.row(&scope, cx.now()));
        let rows: Value = scopes.into_iter().map(row).collect();
        QueryData::of(&json!({ "scopes": rows }))
    }

    /// The counts and the limits of the caller.
    #[service("mine", role = "guest")]
    fn mine(&mut self, caller: Caller, cx: Cx<'_, Service>) -> Value {
        self.row(&Scope::User(caller.userid), cx.now())
    }

    /// The reasons why a job waits, one sentence for each limit.
    #[service("why", role = "guest")]
    fn why(
        &self,
        id: Request<JobId>,
        caller: Caller,
        cx: Cx<'_, Service>,
    ) -> Result<Vec<String>, ServiceError> {
        let job = cx.job(*id)?;
        if !caller.owner && caller.userid != job.userid() {
            return Err(ServiceError::denied("guests can only access their own jobs"));
        }
        if job.dependency(HELD).is_none() {
            return Ok(Vec::new());
        }
        let lacking = demand(job).into_iter().filter_map(|(key, count)| {
            let (out, capacity) = (self.running.out(&key), capacity(&self.settings, &key)?);
            let what = match key.1 {
                Counted::Jobs => "jobs that run or may run",
                Counted::Nodes => "nodes in use",
            };
            let lacks = out.saturating_add(count) > capacity;
            lacks.then(|| {
                format!("{} has {out} of {capacity} {what}; this job needs {count}", key.0)
            })
        });
        let mut reasons: Vec<String> = lacking.collect();
        if job.urgency() == Urgency::HOLD {
            reasons.push("its urgency is 0".to_owned());
        } else if reasons.is_empty() {
            reasons.push("other jobs are before it, or another dependency holds it".to_owned());
        }
        Ok(reasons)
    }
}

impl Limits {
    fn check_size(&self, job: &Job, scope: &Scope) -> Result<(), Reject> {
        let (limit, nodes) = (self.settings.limit(scope), nodes(job.into()));
        match (limit.nodes(), limit.running()) {
            (Some(most), _) if nodes > most => Err(Reject::new(format!(
                "the job asks for {nodes} nodes, and {scope} may have {most} at a time"
            ))),
            (_, Some(0)) => Err(Reject::new(format!("{scope} may run no jobs"))),
            _ => Ok(()),
        }
    }

    fn check_counts(&mut self, scope: &Scope, now: Timestamp) -> Result<(), Reject> {
        let limit = self.settings.limit(scope);
        let pending = self.pending.out(scope);
        if let Some(most) = limit.pending().filter(|most| pending >= *most) {
            return Err(Reject::new(format!(
                "{scope} has {pending} pending jobs and may have {most}: wait until some have started"
            )));
        }
        let submitted = self.submitted(scope, now);
        if let Some(most) = limit.submitted_per_hour().filter(|most| submitted >= *most) {
            let first = self.recent.get(scope).and_then(|recent| recent.values().next());
            let wait = first.map_or(HOUR, |first| (*first + HOUR) - now);
            let wait = Fsd::from_secs(wait.max(1.0)).unwrap_or_default().format_digits(2);
            return Err(Reject::new(format!(
                "{scope} has submitted {submitted} jobs within the hour and may submit {most}: try \
                 again in {wait}"
            )));
        }
        Ok(())
    }

    /// The number of jobs that were submitted within the last hour.
    fn submitted(&mut self, scope: &Scope, now: Timestamp) -> u64 {
        let Some(recent) = self.recent.get_mut(scope) else {
            return 0;
        };
        while recent.first_entry().is_some_and(|first| now - *first.get() >= HOUR) {
            recent.pop_first();
        }
        let count = recent.len() as u64;
        if count == 0 {
            self.recent.remove(scope);
        }
        count
    }

    fn note_submission(&mut self, job: &Job, now: Timestamp) {
        if now - job.t_submit() >= HOUR {
            return;
        }
        for scope in Scope::all_for_job(job.into()) {
            if self.settings.limit(&scope).submitted_per_hour().is_some() {
                self.recent.entry(scope).or_default().insert(job.id(), job.t_submit());
            }
        }
    }

    /// Updates the place of a job that waits for its limits.
    fn enqueue(&mut self, job: &Job) {
        if job.state() == State::Depend && job.dependency(HELD).is_some() {
            self.enqueue_or_release(job);
        }
    }

    /// Adds a job to the waiting jobs if it has no other dependencies, and otherwise removes it from them.
    fn enqueue_or_release(&mut self, job: &Job) {
        if is_next(job) {
            self.running.wait((Reverse(job.urgency()), job.id()), demand(job.into()));
        } else {
            self.running.release(job.id());
        }
        self.schedule_admission();
    }

    /// Schedules the admission of waiting jobs after the current dispatch, because after a restart running
    /// jobs are still being introduced.
    fn schedule_admission(&mut self) {
        if !std::mem::replace(&mut self.admission_scheduled, true) {
            self.remote.run(|limits: &mut Self, cx| {
                limits.admission_scheduled = false;
                limits.admit(&cx);
            });
        }
    }

    fn admit<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        let admitted = self.running.admit(|key| capacity(&self.settings, key));
        for id in admitted {
            let Ok(job) = cx.job(id) else { continue };
            if let Some(held) = job.dependency(HELD) {
                cx.dependency_remove(held);
                cx.unsubscribe(job);
            }
        }
    }

    fn row(&mut self, scope: &Scope, now: Timestamp) -> Value {
        let out = |counted| self.running.out(&(scope.clone(), counted));
        json!({
            "running": out(Counted::Jobs),
            "nodes": out(Counted::Nodes),
            "pending": self.pending.out(scope),
            "submitted-per-hour": self.submitted(scope, now),
            "limits": self.settings.limit(scope),
        })
    }
}

/// Whether a job has no dependencies other than `limits` and licenses. Licenses are not considered, as they
/// are given to jobs without other dependencies: one of the two plugins must come first.
fn is_next(job: &Job) -> bool {
    let before = |description: &str| description != HELD && !is_license(description);
    job.urgency() != Urgency::HOLD && !job.dependencies().any(before)
}

fn capacity(settings: &Settings, (scope, counted): &Key) -> Option<u64> {
    let limit = settings.limit(scope);
    match counted {
        Counted::Jobs => limit.running(),
        Counted::Nodes => limit.nodes(),
    }
}

/// The nodes of a job: those that are allocated, or those that it asks for.
fn nodes(job: JobRef<'_>) -> u64 {
    match job.resources() {
        Some(resources) => resources.nnodes() as u64,
        None => job.jobspec().counts().nnodes.max(1),
    }
}

fn demand(job: JobRef<'_>) -> Demand<Key> {
    let nodes = nodes(job);
    let of = |scope: Scope| [((scope.clone(), Counted::Jobs), 1), ((scope, Counted::Nodes), nodes)];
    Scope::all_for_job(job).flat_map(of).collect()
}
