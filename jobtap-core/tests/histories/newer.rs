//! A plugin that uses what the others don't: `job.create` and `job.destroy`, updates, resources that it gives to a job
//! itself, own topics, handlers that run again after a restart, prologs that it takes over.

use jobtap_core::prelude::*;
use serde_json::json;

/// The places at which a job can ask for something, each with the number of ways.
pub(crate) const PLACES: &[(&str, u64)] = &[
    ("newer-create", 3),
    ("newer-sched", 3),
    ("newer-run", 5),
    ("newer-update", 3),
    ("newer-event", 2),
    ("newer-over", 2),
];

fn asks(job: &Jobspec, key: &str) -> u64 {
    let value = job.attribute(&format!("h.newer-{key}"));
    value.and_then(serde_json::Value::as_u64).unwrap_or(0)
}

const SEEN: EventName = event_name!("newer.seen");

/// An own topic whose handler calls the topic again, which is refused.
#[topic("newer.question", answer = u32, job)]
struct Question;

#[data(version = 2)]
#[derive(Debug, Default, Serialize, Deserialize)]
struct Count(u64);

#[derive(Default)]
pub(crate) struct Newer {
    kept: Vec<Token>,
}

#[jobtap_plugin(name = "newer", instance_data = Count, load_order = "state")]
impl Newer {
    #[on("job.create")]
    fn create(&self, spec: &Jobspec) -> Result<(), Reject> {
        match asks(spec, "create") {
            1 => Err(Reject::new("no")),
            2 => panic!("hostile"),
            _ => Ok(()),
        }
    }

    #[on("job.new")]
    fn new_job(
        &mut self,
        job: &Job,
        count: InstanceData<'_, Count>,
        cx: Cx<'_, JobNew>,
    ) -> Result<(), HandlerError> {
        count.update(|count| count.0 += 1)?;
        cx.subscribe(job)?;
        if asks(job.jobspec(), "run") == 1 {
            self.kept.extend(cx.prolog_reopen(job, "kept"));
        }
        Ok(())
    }

    #[on(Question)]
    fn question(&self, job: &Job, cx: Cx<'_, Question>) -> Result<u32, HandlerError> {
        if asks(job.jobspec(), "event") == 2 {
            panic!("hostile");
        }
        Ok(cx.call_for(job, &Question).map(|answers| answers.iter().sum()).unwrap_or(1))
    }

    #[on("job.state.sched")]
    fn sched(&self, spec: &Jobspec) -> Result<Option<ResourceSet>, HandlerError> {
        Ok(match asks(spec, "sched") {
            1 => {
                let children = json!({"rank": "0", "children": {"core": "0-63"}});
                let lite = json!({"R_lite": [children], "nodelist": ["far"], "starttime": 0,
                    "expiration": 0});
                Some(json!({"version": 1, "execution": lite}).to_string().parse()?)
            }
            2 => panic!("hostile"),
            _ => None,
        })
    }

    #[on("job.state.run", on_restart = "rerun", timeout = "7s", on_cancel = "run-on")]
    async fn run(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        match asks(&job.jobspec, "run") {
            1 => {
                remote.sleep(2.0).await?;
            }
            2 => remote.sleep(100.0).await?,
            3 => panic!("hostile"),
            4 => {
                let mut child = remote.start_process(Process::new("prolog"));
                let _ = remote.until_ended(job.id, child.wait()).await;
            }
            5 => return Err(PrologFailed::new("on purpose")),
            _ => {}
        }
        Ok(())
    }

    #[on("job.event.*")]
    fn event(
        &mut self,
        job: &Job,
        entry: &EventEntry,
        cx: Cx<'_, JobEventAny>,
    ) -> Result<(), HandlerError> {
        let Ok(job) = cx.active_job(job.id()) else { return Ok(()) };
        if asks(job.jobspec(), "event") > 0 {
            match &*entry.name {
                "priority" => {
                    cx.post_event(job, SEEN, json!({"of": "priority"}))?;
                    cx.call_for(job, &Question)?;
                }
                "newer.seen" => cx.set_flag(job, JobFlag::Debug)?,
                _ => {}
            }
        }
        Ok(())
    }

    #[on("job.update.attributes.system.h.update")]
    fn may_change(&self, request: &UpdateRequest) -> Result<Update, Reject> {
        match request.value.as_u64() {
            Some(0) => Ok(Update::allow()),
            Some(1) => Err(Reject::new("no")),
            Some(2) => panic!("hostile"),
            _ => Ok(Update::allow()
                .validated()
                .needs_feasibility()
                .also(path!("attributes.system.h.more"), 1)),
        }
    }

    #[on("job.update.attributes.system.duration")]
    fn duration() -> Update {
        Update::allow().validated()
    }

    #[on("job.update")]
    fn changed(&self, job: &Job, cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
        match asks(job.jobspec(), "update") {
            1 => cx.fail_job(cx.active_job(job.id())?, "update", "on purpose"),
            2 => panic!("hostile"),
            3 if job.jobspec().attribute("h.settled").is_none() => {
                let _ = cx.jobspec_update(path!("attributes.system.h.settled"), 1);
            }
            _ => {}
        }
        Ok(())
    }

    #[on("job.inactive-add", "job.inactive-remove")]
    fn over(&self, job: &Job) {
        if asks(job.jobspec(), "over") == 1 {
            panic!("hostile");
        }
    }

    #[on("job.destroy")]
    fn destroy(&self, job: &Job) {
        if asks(job.jobspec(), "over") == 2 {
            panic!("hostile");
        }
    }
}
