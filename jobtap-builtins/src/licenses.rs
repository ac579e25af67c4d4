//! `licenses`: counted tokens that a job holds from before it is scheduled until it is over.
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
//! A job asks with `--dependency=license:matlab` or `--dependency=license:abaqus?count=8`, once for
//! each licence. It waits in DEPEND until nothing else holds it there and all its licences are free,
//! and takes them at once: what many share is taken last, after a place among what `limits` counts. The more urgent job goes first, then the older; one that waits for many
//! tokens is not overtaken by those who want fewer.
//!
//! Who holds what follows from the jobs, so a restart or a reload changes nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::tokens::{Demand, LICENSE as SCHEME, Tokens, is_license};

/// See the module.
#[derive(Debug)]
pub struct Licenses {
    totals: BTreeMap<String, u64>,
    tokens: Tokens<String>,
    remote: Remote<Self>,
    /// Those in line will be looked at soon.
    looks: bool,
}

#[jobtap_plugin(name = "licenses", load = "by-name")]
impl Licenses {
    #[init]
    fn new(totals: Conf<BTreeMap<String, u64>>, remote: Remote<Self>) -> Self {
        let totals = totals.into_inner();
        Self { totals, tokens: Tokens::default(), remote, looks: false }
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

    /// Counts a job that was there before.
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
                self.line_up(job);
            }
            _ => self.tokens.hold(job.id(), demand),
        }
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(&mut self, job: &Job) {
        self.line_up(job);
    }

    /// Something else has let it go, or its place in line is another one.
    #[on("job.event.dependency-remove", "job.event.urgency")]
    fn moved(&mut self, job: &Job) {
        self.line_up(job);
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job) {
        if self.tokens.release(job.id()) {
            self.look();
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&json!({ "licenses": self.table() }))
    }

    /// What there is and what is out, for everybody.
    #[service("list", role = "guest")]
    fn list(&self) -> Value {
        self.table()
    }
}

impl Licenses {
    /// Puts a job that only its licences hold in line.
    fn line_up(&mut self, job: &Job) {
        let id = job.id();
        if job.state() != State::Depend || !job.dependencies().any(is_license) {
            return;
        }
        if job.urgency() == Urgency::HOLD || !job.dependencies().all(is_license) {
            self.tokens.release(id);
            return;
        }
        self.tokens.wait((Reverse(job.urgency()), id), demand(job.into()));
        self.look();
    }

    /// Looks at those in line, once all that happens now has happened: after a restart the jobs that
    /// hold something are still being introduced.
    fn look(&mut self) {
        if std::mem::replace(&mut self.looks, true) {
            return;
        }
        self.remote.run(|licenses: &mut Self, cx| {
            licenses.looks = false;
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

/// Licence and number of tokens of one dependency.
fn wanted(dependency: &Dependency) -> Result<(&str, u64), Reject> {
    let name = dependency.value.as_str();
    let Some(count) = dependency.options.get("count") else {
        return Ok((name, 1));
    };
    // From the command line it is a text.
    let count = count.as_str().map_or_else(|| count.as_u64(), |text| text.parse().ok());
    let count = count.filter(|count| *count > 0).ok_or_else(|| {
        Reject::new(format!("dependency: {SCHEME}: {name}: count must be a number above 0"))
    })?;
    Ok((name, count))
}

/// All that a job asks for.
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
