//! Every shape of handler that the SDK offers.
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use jobtap_core::prelude::*;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Usage {
    seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    limit: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { limit: 8 }
    }
}

#[derive(Deserialize)]
struct Watched {
    #[serde(default)]
    access: serde_json::Value,
}

struct Site {
    settings: Settings,
    jobs: u64,
}

#[jobtap_plugin(name = "site", load = "by-name", before = ["other"], after = [".x"], data = Usage)]
impl Site {
    #[init]
    fn new(conf: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        remote.run(|site, cx| {
            site.jobs = 0;
            cx.log(Level::Debug, "built");
        });
        Ok(Self { settings: conf.into_inner(), jobs: 0 })
    }

    #[on("conf.update")]
    fn conf(&mut self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        let _ = &conf.access;
        Ok(())
    }

    #[on("job.validate")]
    fn validate(&self, spec: &Jobspec, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        if spec.counts().ntasks > self.settings.limit {
            return Err(Reject::new("too many tasks"));
        }
        cx.jobspec_update(path!("attributes.system.checked"), true)?;
        cx.dependency_add("site-check")?;
        Ok(())
    }

    #[on("job.dependency.license", "job.dependency.token")]
    fn dependency(
        &mut self,
        dependency: &Dependency,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        cx.dependency_add(format!("license={}", dependency.value))?;
        Ok(())
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<Annotations, HandlerError> {
        self.jobs += 1;
        cx.subscribe(job)?;
        Ok(Annotations::new().with("site", "seen"))
    }

    #[on("job.event.*")]
    fn event(entry: &EventEntry, data: Data<'_, Usage>) -> Result<(), HandlerError> {
        data.update(|usage| usage.seconds += entry.timestamp.as_secs())?;
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job, cx: Cx<'_, (JobStatePriority, JobPriorityGet)>) -> Priority {
        let age = cx.now() - job.t_submit();
        Priority::clamped(age)
    }

    #[on("job.state.run")]
    async fn scratch(
        job: JobInfo,
        r: ResourceSet,
        remote: Remote<Self>,
    ) -> Result<(), PrologFailed> {
        remote.sleep(1.0).await?;
        let jobs = remote.call(|site, _cx| site.jobs).await?;
        if jobs == 0 || r.nnodes() == 0 {
            return Err(PrologFailed::new(format!("job {} is nowhere", job.id)));
        }
        Ok(())
    }

    #[on("job.state.cleanup")]
    fn cleanup(&self, prev: PrevState, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
        if prev.0 == Some(State::Run) {
            cx.epilog_start("scrub")?.finish(0);
        }
        Ok(())
    }

    #[on("job.state.inactive")]
    fn over(&mut self, resources: Option<&ResourceSet>) {
        let _ = resources.map(ResourceSet::nnodes);
        self.jobs -= 1;
    }
}

fn main() {}
