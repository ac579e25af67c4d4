//! The topics, parameters and outcomes that `01-all-shapes.rs` leaves out.
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, SlurmError, errno};
use serde_json::json;

#[data(version = 2, upgrade = from_minutes)]
#[derive(Debug, Default, Serialize, Deserialize)]
struct Usage {
    seconds: f64,
}

fn from_minutes(_version: u32, old: serde_json::Value) -> Result<Usage, UpgradeError> {
    Ok(Usage { seconds: 60.0 * old.as_f64().ok_or_else(|| UpgradeError::new("no number"))? })
}

/// What may a user have?
#[topic("limits.of", answer = Result<u64, String>)]
struct LimitOf {
    user: Uid,
}

/// Something happened to a job.
#[topic("limits.seen", job)]
struct Seen;

const SEEN: EventName = event_name!("limits.seen");

#[derive(Default)]
struct Limits {
    jobs: u64,
}

#[jobtap_plugin(name = "limits", load_order = "-state", data = Usage, instance_data = Usage)]
impl Limits {
    #[on("job.create")]
    fn create(&self, _job: &Job) -> Result<(), Reject> {
        Ok(())
    }

    #[on("job.state.*")]
    fn state(&self, topic: JobTopic<'_>, prev: PrevState, cause: Option<&EventEntry>) {
        let _ = (topic, prev, cause);
    }

    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Option<Priority> {
        (job.urgency() == Urgency::HOLD).then_some(Priority::HELD)
    }

    #[on("job.priority.get")]
    fn priority_again(&self, _job: &Job) -> Result<Option<Priority>, HandlerError> {
        Ok(None)
    }

    #[on("job.state.sched")]
    fn sched(&self, spec: &Jobspec) -> Result<Option<ResourceSet>, HandlerError> {
        let _ = spec.counts();
        Ok(None)
    }

    #[on("job.update.*")]
    fn update(&self, request: &UpdateRequest, job: &Job) -> Result<Update, Reject> {
        if request.cred.userid != job.userid() {
            return Err(Reject::new("not your job"));
        }
        Ok(Update::allow().validated().also(path!("attributes.system.by"), "limits"))
    }

    #[on("job.update")]
    fn updated(&self, updates: Updates<'_>) -> Result<(), HandlerError> {
        let _ = updates.get("attributes.system.duration");
        Ok(())
    }

    #[on("job.inactive-add", "job.inactive-remove", "job.destroy")]
    fn gone(&mut self, job: &Job, total: InstanceData<'_, Usage>) -> Result<(), HandlerError> {
        let _ = job.id();
        total.update(|usage| usage.seconds += 1.0)?;
        Ok(())
    }

    #[on("job.*")]
    fn watch(&mut self, topic: JobTopic<'_>, _job: &Job) {
        if matches!(topic, JobTopic::New) {
            self.jobs += 1;
        }
    }

    #[on("allocation.plan")]
    fn plan(
        &self,
        demand: &Demand,
        cx: Cx<'_, AllocationPlan>,
    ) -> Result<Option<Plan>, HandlerError> {
        cx.log(Level::Debug, format!("{} tables", demand.tables.len()));
        Ok(demand
            .tables
            .first()
            .map(|first| Plan::new().order(&first.table.name, first.can_order())))
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        Ok(QueryData::new().with("jobs", self.jobs))
    }

    #[on("unload")]
    fn unload(&mut self, cx: Cx<'_, Unload>) -> Result<(), HandlerError> {
        cx.log(Level::Info, "unloaded");
        Ok(())
    }

    #[on(LimitOf)]
    fn limit_of(&self, question: &LimitOf) -> Result<u64, String> {
        Ok(u64::from(question.user.0))
    }

    #[on(Seen)]
    fn seen(&self, job: &Job, usage: Data<'_, Usage>) -> Result<(), HandlerError> {
        let _ = (job.id(), usage.get()?);
        Ok(())
    }

    #[service("set")]
    fn set(&mut self, request: Request<u64>) -> Result<u64, ServiceError> {
        self.jobs = request.into_inner();
        Ok(self.jobs)
    }

    #[service("mine", role = "guest")]
    fn mine(&self, caller: Caller) -> Option<u64> {
        caller.owner.then_some(self.jobs)
    }

    #[service("watch")]
    fn watch_it(&self, mut responder: Responder<u64>) -> Result<(), ServiceError> {
        responder.send(&self.jobs)
    }

    #[service]
    async fn later(request: Request<String>, remote: Remote<Self>) -> Result<u64, ServiceError> {
        remote.sleep(request.len() as f64).await?;
        Ok(remote.call(|limits, _cx| limits.jobs).await?)
    }
}

#[derive(Default)]
struct Slurm;

#[jobtap_plugin(name = "slurm", data = Usage)]
impl Slurm {
    #[on("slurm.job_submit", "slurm.job_modify")]
    fn both(
        mut desc: Descriptor<'_>,
        user: SubmitUid,
        partitions: Partitions<'_>,
        cx: Cx<'_, (SlurmJobSubmit, SlurmJobModify)>,
    ) -> Result<(), SlurmError> {
        desc.account = desc.account.take().or_else(|| Some(user.0.to_string()));
        if partitions.default_partition().is_none() {
            cx.user_message("name a partition");
            return Err(errno::ESLURM_DEFAULT_PARTITION_NOT_SET.with("there are several"));
        }
        Ok(())
    }
}

#[derive(Default)]
struct SlurmLater;

#[jobtap_plugin(name = "slurm-later")]
impl SlurmLater {
    #[on("slurm.job_submit", timeout = "5s")]
    async fn submit(
        desc: JobDescriptor,
        partitions: Vec<Partition>,
        messages: UserMessages,
    ) -> Result<JobDescriptor, SlurmError> {
        messages.send(format!("{} partitions", partitions.len()));
        Ok(desc)
    }

    #[on("slurm.prolog_slurmctld", timeout = "1m", on_cancel = "run-on")]
    async fn prepare(job: JobInfo, r: ResourceSet) -> Result<(), PrologFailed> {
        let _ = (job.id, r.nnodes());
        Ok(())
    }

    #[on("slurm.prolog")]
    fn prolog(&self, job: &Job, node: Node, r: &ResourceSet) -> Result<(), PrologFailed> {
        match r.ranks().contains(node.rank) {
            true => Ok(()),
            false => Err(PrologFailed::new(format!("{} is not on {}", job.id(), node.host))),
        }
    }

    #[on("slurm.epilog", timeout = "1m")]
    async fn epilog(node: Node) -> Result<(), EpilogFailed> {
        let _ = node;
        Ok(())
    }

    #[on("slurm.epilog_slurmctld")]
    fn conclude(&self, _job: &Job) {}

    #[on("slurm.job_modify")]
    async fn modify(
        record: JobRecord,
        job: JobInfo,
        user: SubmitUid,
        remote: Remote<Self>,
    ) -> Result<(), SlurmError> {
        let same = remote.blocking(move || job.userid == user.0 && record.name.is_some()).await;
        match same {
            Ok(true) => Ok(()),
            _ => Err(errno::ESLURM_ACCESS_DENIED),
        }
    }
}

#[derive(Default)]
struct Asks;

#[jobtap_plugin(name = "asks", after = ["limits"])]
impl Asks {
    #[on("job.validate", timeout = "30s")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        let user = job.userid;
        let answers = remote.call(move |_, cx| {
            let answers = cx.call(&LimitOf { user })?;
            Ok::<_, CallError>(answers.into_iter().filter_map(Result::ok).sum::<u64>())
        });
        match answers.await? {
            Ok(0) => Err(Reject::new("you have nothing")),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[on("job.dependency.*", on_restart = "fail")]
    async fn dependency(_job: JobInfo, dependency: Dependency) -> Result<(), Reject> {
        let _ = dependency.value;
        Ok(())
    }

    #[on("job.state.priority")]
    async fn priority(_job: JobInfo) -> Result<Priority, HandlerError> {
        Ok(Priority::new(1))
    }

    #[on("job.state.run", on_restart = "rerun", timeout = "5m", on_cancel = "run-on")]
    async fn scratch(_job: JobInfo) {}

    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        cx.post_event(job, SEEN, json!({"by": "asks"}))?;
        cx.set_flag(job, JobFlag::Debug)?;
        cx.call_for(job, &Seen)?;
        cx.prolog_reopen(job, "asks.scratch")?.finish(0);
        Ok(())
    }
}

fn main() {}
