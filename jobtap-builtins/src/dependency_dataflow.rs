//! `dependency-dataflow`: orders jobs by what they read and write, like tasks in OpenMP. It provides the
//! schemes `string` and `fluid` of RFC 26.
//!
//! ```text
//! jobtap submit --dependency='string:mesh?type=out&scope=user' make-mesh
//! jobtap submit --dependency='string:mesh?type=in&scope=user' solve
//! ```
//!
//! | `type` | waits until these are inactive, with any result |
//! |---|---|
//! | `in` | earlier jobs that write the same symbol |
//! | `out`, `inout` | earlier jobs that read or write the same symbol |
//!
//! A symbol with scope `user` is shared by the jobs of one user, one with scope `global` by all jobs. The
//! meaning of a `string` is up to the users. A `fluid` is the id of a job, which counts as a writer of the
//! symbol.

use std::collections::{BTreeSet, HashMap};

use jobtap_core::prelude::*;

use crate::private_mode::PrivateMode;

/// The plugin `dependency-dataflow`.
#[derive(Debug, Default)]
pub struct DependencyDataflow {
    lines: HashMap<Symbol, Line>,
    /// The symbols that each job reads or writes.
    places: HashMap<JobId, BTreeSet<Symbol>>,
    /// Whether all jobs that existed when the plugin was loaded are known.
    complete: bool,
    private: PrivateMode,
}

/// What jobs read and write: a text or a job, of one user or of all users.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Symbol {
    scope: Option<Uid>,
    name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Job(JobId),
    Text(String),
}

/// The active jobs that read and write a symbol, ordered by id, which is the order of submission.
#[derive(Debug, Default)]
struct Line {
    readers: BTreeSet<JobId>,
    writers: BTreeSet<JobId>,
    /// The waiting jobs: the id, whether the job writes, and the description of its dependency.
    waiting: BTreeSet<(JobId, bool, String)>,
}

/// A parsed dependency of a job.
#[derive(Debug)]
struct Access {
    symbol: Symbol,
    writes: bool,
    description: String,
}

#[jobtap_plugin(name = "dependency-dataflow", load = "by-name")]
impl DependencyDataflow {
    /// After a restart jobs become known one by one. No job is released before all are known, since it may
    /// have to wait for one that isn't known yet.
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        remote.run(|plugin, cx| {
            plugin.complete = true;
            plugin.lines.values_mut().for_each(|line| line.release(&cx));
        });
        Self::default()
    }

    #[on("conf.update")]
    fn conf(&mut self, conf: InstanceConf<PrivateMode>) {
        self.private = conf.into_inner();
    }

    #[on("job.dependency.string", "job.dependency.fluid")]
    fn dependency(
        &mut self,
        job: &Job,
        dependency: &Dependency,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        let access = Access::new(job, dependency)?;
        let (new, value) = (job.state() == State::New, &dependency.value);
        if let (Name::Job(target), true) = (&access.symbol.name, new) {
            let unknown = || Reject::new(format!("dependency: fluid: id {value}: job not found"));
            let target = cx.job(*target).map_err(|_| unknown())?;
            if self.private.hides(target.userid(), job.userid(), cx.owner()) {
                return Err(unknown());
            }
            if access.symbol.scope.is_some_and(|user| user != target.userid()) {
                return Err(Reject::new(format!("fluid: Permission denied for job {value}")));
            }
        }
        let line = self.join(job, &access, &cx);
        // This topic is called again after a restart. A job that was released before the restart must not
        // wait again.
        let free = line.is_free(job.id(), access.writes);
        if if new { !free } else { job.dependency(&access.description).is_some() } {
            cx.dependency_add(access.description.as_str())?;
            line.waiting.insert((job.id(), access.writes, access.description));
        }
        Ok(())
    }

    /// After a restart this also registers jobs that have left DEPEND.
    #[on("job.new")]
    fn arrived(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
        for dependency in job.jobspec().dependencies().into_iter().flatten() {
            if let "string" | "fluid" = &*dependency.scheme
                && let Ok(access) = Access::new(job, &dependency)
            {
                self.join(job, &access, &cx);
            }
        }
    }

    /// Removes a job that is inactive, or that was rejected after its dependency had been added.
    #[on("job.state.inactive", "job.destroy")]
    fn gone(&mut self, job: &Job, cx: Cx<'_, (JobStateInactive, JobDestroy)>) {
        for symbol in self.places.remove(&job.id()).into_iter().flatten() {
            let Some(line) = self.lines.get_mut(&symbol) else { continue };
            line.readers.remove(&job.id());
            line.writers.remove(&job.id());
            line.waiting.retain(|(waits, ..)| *waits != job.id());
            if self.complete {
                line.release(&cx);
            }
            if line.readers.is_empty() && line.writers.is_empty() {
                self.lines.remove(&symbol);
            }
        }
    }

    /// Registers a job as a reader or writer of a symbol. If the symbol is a job, that job is registered as
    /// a writer first.
    fn join<T: TopicSet>(&mut self, job: &Job, access: &Access, cx: &Cx<'_, T>) -> &mut Line {
        let line = self.lines.entry(access.symbol.clone()).or_default();
        if let Name::Job(target) = &access.symbol.name
            && let Ok(target) = cx.active_job(*target)
        {
            line.writers.insert(target.id());
            self.places.entry(target.id()).or_default().insert(access.symbol.clone());
        }
        if access.writes { &mut line.writers } else { &mut line.readers }.insert(job.id());
        self.places.entry(job.id()).or_default().insert(access.symbol.clone());
        line
    }
}

impl Access {
    fn new(job: &Job, dependency: &Dependency) -> Result<Self, Reject> {
        let Dependency { scheme, value, options } = dependency;
        let option = |key: &str| options.get(key).and_then(|value| value.as_str());
        let refuse = |what: &str| Reject::new(format!("dependency: {scheme}: {what}"));
        let (kind, writes) = match option("type") {
            Some("in") => ("in", false),
            Some(kind @ ("out" | "inout")) => (kind, true),
            _ => return Err(refuse("type must be in, out or inout")),
        };
        let (word, scope) = match option("scope") {
            Some("user") => ("user", Some(job.userid())),
            Some("global") => ("global", None),
            _ => return Err(refuse("scope must be user or global")),
        };
        let name = match scheme.as_str() {
            "fluid" => {
                let no_id = |_| refuse(&format!("\"{value}\" is not a valid jobid"));
                Name::Job(value.parse().map_err(no_id)?)
            }
            _ => Name::Text(value.clone()),
        };
        let description = format!("{scheme}-{kind}={word}:{value}");
        Ok(Self { symbol: Symbol { scope, name }, writes, description })
    }
}

impl Line {
    /// Whether the job need not wait for an earlier one.
    fn is_free(&self, job: JobId, writes: bool) -> bool {
        let first_of = |jobs: &BTreeSet<JobId>| jobs.first().is_none_or(|first| *first >= job);
        first_of(&self.writers) && (!writes || first_of(&self.readers))
    }

    /// Removes the dependencies of jobs that need not wait any more. A job that blocks a waiting job also
    /// blocks all later ones, so the search ends at the first job that must wait.
    fn release<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        while let Some((id, writes, description)) = self.waiting.first()
            && self.is_free(*id, *writes)
        {
            cx.dependency_remove_of(*id, description);
            self.waiting.pop_first();
        }
    }
}
