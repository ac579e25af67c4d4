//! `licenses`: counted tokens that a job holds from before it is scheduled until it is inactive.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "licenses" }]
//!
//! [plugins.licenses]
//! matlab = 10
//! abaqus = 200
//! ```
//!
//! A job asks for licenses with `--dependency=license:matlab` or `--dependency=license:abaqus?count=8`, once
//! for each license. It stays in DEPEND until it has no other dependencies and all its licenses are
//! available, and then takes all of them at once. Licenses are taken last, after the limits of `limits`,
//! because they are shared by most jobs. Jobs with higher urgency go first, then older jobs. A job that
//! waits for many tokens is not overtaken by jobs that need fewer.
//!
//! The tokens of each job are derived from the job itself, so a restart or a reload changes nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::tokens::{Demand, LICENSE as SCHEME, Tokens, is_license};

/// The plugin `licenses`.
#[derive(Debug)]
pub struct Licenses {
    totals: BTreeMap<String, u64>,
    tokens: Tokens<String>,
    remote: Remote<Self>,
    /// Whether the admission of waiting jobs is scheduled.
    admission_scheduled: bool,
}

#[jobtap_plugin(name = "licenses", load = "by-name")]
impl Licenses {
    #[init]
    fn new(totals: Conf<BTreeMap<String, u64>>, remote: Remote<Self>) -> Self {
        let totals = totals.into_inner();
        Self { totals, tokens: Tokens::default(), remote, admission_scheduled: false }
    }

    #[on("job.dependency.license")]
    fn ask(
        &self,
        job: &Job,
        dependency: &Dependency,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        let (name, count) = wanted(dependency)?;
        let refused = |text: String| Reject::new(format!("dependency: {SCHEME}: {text}"));
        let Some(total) = self.totals.get(name) else {
            let names: Vec<&str> = self.totals.keys().map(String::as_str).collect();
            return Err(refused(format!("{name:?} is unknown: there are {}", names.join(", "))));
        };
        let all = demand(job.into()).get(name).copied().unwrap_or(count);
        if all > *total {
            return Err(refused(format!("{all} of {name} can't be had: there are {total}")));
        }
        cx.dependency_add(description(name, count))?;
        Ok(())
    }

    /// Registers a new job, or one that existed before the plugin was loaded.
    #[on("job.new")]
    fn introduced(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let demand = demand(job.into());
        if demand.is_empty() {
            return Ok(());
        }
        let held = job.dependencies().any(is_license);
        match job.state() {
            State::New => cx.subscribe(job)?,
            State::Depend if held => {
                cx.subscribe(job)?;
                self.enqueue(job);
            }
            _ => self.tokens.hold(job.id(), demand),
        }
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(&mut self, job: &Job) {
        self.enqueue(job);
    }

    /// Called when another dependency of the job was removed, or its urgency has changed.
    #[on("job.event.dependency-remove", "job.event.urgency")]
    fn moved(&mut self, job: &Job) {
        self.enqueue(job);
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job) {
        if self.tokens.release(job.id()) {
            self.schedule_admission();
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&json!({ "licenses": self.table() }))
    }

    /// The total and the used tokens of each license, for all users.
    #[service("list", role = "guest")]
    fn list(&self) -> Value {
        self.table()
    }
}

impl Licenses {
    /// Adds a job to the waiting jobs if it has no dependencies other than its licenses; otherwise removes
    /// it.
    fn enqueue(&mut self, job: &Job) {
        let id = job.id();
        if job.state() != State::Depend || !job.dependencies().any(is_license) {
            return;
        }
        if job.urgency() == Urgency::HOLD || !job.dependencies().all(is_license) {
            self.tokens.release(id);
            return;
        }
        self.tokens.wait((Reverse(job.urgency()), id), demand(job.into()));
        self.schedule_admission();
    }

    /// Schedules the admission of waiting jobs after the current dispatch, because after a restart the jobs
    /// that hold tokens are still being introduced.
    fn schedule_admission(&mut self) {
        if std::mem::replace(&mut self.admission_scheduled, true) {
            return;
        }
        self.remote.run(|licenses: &mut Self, cx| {
            licenses.admission_scheduled = false;
            let totals = &licenses.totals;
            let admitted =
                licenses.tokens.admit(|name| Some(totals.get(name).copied().unwrap_or_default()));
            for id in admitted {
                let Ok(job) = cx.job(id) else { continue };
                for held in job.dependencies().filter(|description| is_license(description)) {
                    job.dependency(held).into_iter().for_each(|held| cx.dependency_remove(held));
                }
                cx.unsubscribe(job);
            }
        });
    }

    fn table(&self) -> Value {
        let row = |(name, total): (&String, &u64)| {
            (name.clone(), json!({ "total": total, "out": self.tokens.out(name) }))
        };
        self.totals.iter().map(row).collect()
    }
}

fn description(name: &str, count: u64) -> String {
    match count {
        1 => format!("{SCHEME}={name}"),
        count => format!("{SCHEME}={name}:{count}"),
    }
}

/// The license and the number of tokens that a dependency asks for.
fn wanted(dependency: &Dependency) -> Result<(&str, u64), Reject> {
    let name = dependency.value.as_str();
    let Some(count) = dependency.options.get("count") else {
        return Ok((name, 1));
    };
    // The command line gives a string.
    let count = count.as_str().map_or_else(|| count.as_u64(), |text| text.parse().ok());
    let count = count.filter(|count| *count > 0).ok_or_else(|| {
        Reject::new(format!("dependency: {SCHEME}: {name}: count must be a number above 0"))
    })?;
    Ok((name, count))
}

/// All tokens that a job asks for.
fn demand(job: JobRef<'_>) -> Demand<String> {
    let dependencies = job.jobspec().dependencies().unwrap_or_default();
    let ours = dependencies.iter().filter(|dependency| dependency.scheme == SCHEME);
    let mut demand = Demand::new();
    for (name, count) in ours.filter_map(|dependency| wanted(dependency).ok()) {
        let sum: &mut u64 = demand.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    }
    demand
}
