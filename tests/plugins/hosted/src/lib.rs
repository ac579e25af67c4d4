//! Plugins for the tests of hosts. A job says what it wants in its attribute `hosted`:
//! `--setattr=hosted.reject=TEXT`.

use jobtap_core::prelude::*;
use serde_json::Value;

/// The configuration of [`Hosted`].
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Added to 1000, the priority of jobs that don't ask for another one.
    base: u32,
    /// A configuration with this text is refused, and the text is the reason.
    refuse: Option<String>,
}

/// How often the plugin was called for a job's priority, across restarts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Asked(u32);

/// How many jobs have ended, across restarts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ended(u32);

/// Does what jobs ask for, with the calls of the SDK.
#[derive(Debug)]
pub struct Hosted {
    settings: Settings,
    started: u32,
    introduced: u32,
}

/// Returns what a job asks for under this key.
fn wish<'j>(job: &'j Job, key: &str) -> Option<&'j Value> {
    job.jobspec().attribute(&format!("hosted.{key}"))
}

fn text<'j>(job: &'j Job, key: &str) -> Option<&'j str> {
    wish(job, key)?.as_str()
}

#[jobtap_plugin(name = "hosted", data = Asked, instance_data = Ended)]
impl Hosted {
    #[init]
    fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
        let settings = settings.into_inner();
        match settings.refuse {
            Some(text) => Err(ConfError::new(text)),
            None => Ok(Self { settings, started: 0, introduced: 0 }),
        }
    }

    #[on("conf.update")]
    fn conf(&mut self, settings: Conf<Settings>) -> Result<(), ConfError> {
        match &settings.refuse {
            Some(text) => Err(ConfError::new(text.clone())),
            None => {
                self.settings = settings.into_inner();
                Ok(())
            }
        }
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        if let Some(text) = text(job, "reject") {
            return Err(Reject::new(text));
        }
        if let Some(name) = text(job, "rename") {
            cx.jobspec_update(path!("attributes.system.job.name"), name)?;
        }
        Ok(())
    }

    #[on("job.dependency.hold")]
    fn hold(
        &self,
        job: &Job,
        dependency: &Dependency,
        remote: Remote<Self>,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        let seconds: f64 = dependency.value.parse().or_error()?;
        let name = format!("hold={seconds}");
        cx.dependency_add(name.clone())?;
        let id = job.id();
        remote.at(cx.now() + seconds, move |_, cx| {
            if let Ok(job) = cx.active_job(id)
                && let Some(dependency) = job.dependency(&name)
            {
                cx.dependency_remove(dependency);
            }
        });
        Ok(())
    }

    #[on("job.dependency.soon")]
    async fn soon(remote: Remote<Self>) -> Result<(), Reject> {
        remote.sleep(0.05).await.or_error()?;
        Ok(())
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        self.introduced += u32::from(job.state() != State::New);
        if wish(job, "watch").is_some() {
            cx.subscribe(job)?;
        }
        Ok(())
    }

    #[on("job.event.start")]
    fn started(&mut self, job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
        self.started += 1;
        let count = json!({"count": self.started});
        Ok(cx.post_event(job, event_name!("hosted.started"), count)?)
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job, asked: Data<'_, Asked>) -> Result<Priority, HandlerError> {
        asked.update(|asked| asked.0 += 1)?;
        let wished = wish(job, "priority").and_then(|value| value.as_u64());
        let wished = wished.and_then(|value| u32::try_from(value).ok());
        Ok(Priority::new(wished.unwrap_or(self.settings.base + 1000)))
    }

    #[on("job.state.sched")]
    fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
        if let Some(text) = text(job, "memo") {
            cx.memo(job, "hosted", text)?;
        }
        if let Some(text) = text(job, "note") {
            cx.annotate(job, Annotations::new().with("hosted", json!({"note": text})))?;
        }
        Ok(())
    }

    /// A prolog that runs a process.
    #[on("job.state.run", timeout = "30s")]
    async fn prolog(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let Some(script) = job.jobspec.attribute("hosted.prolog").and_then(|v| v.as_str()) else {
            return Ok(());
        };
        let process = Process::new("sh").args(["-c", script]).env("JOB", job.id.to_string());
        let done = remote.run_process(process).await?;
        done.success().map_err(|how| PrologFailed::new(format!("prolog: {how}")))
    }

    /// An epilog that takes as many seconds as the job says.
    #[on("job.state.cleanup")]
    async fn epilog(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        if let Some(seconds) = job.jobspec.attribute("hosted.epilog").and_then(|v| v.as_f64()) {
            remote.sleep(seconds).await?;
        }
        Ok(())
    }

    #[on("job.state.inactive")]
    fn inactive(&self, ended: InstanceData<'_, Ended>) -> Result<(), HandlerError> {
        Ok(ended.update(|ended| ended.0 += 1)?)
    }

    #[on("job.update.attributes.system.hosted.color")]
    fn color(&self, request: &UpdateRequest) -> Result<Update, Reject> {
        match request.value.as_str() {
            Some("red") => Err(Reject::new("red is taken")),
            _ => Ok(Update::allow().validated()),
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        QueryData::new().with("started", self.started).with("introduced", self.introduced)
    }

    #[service("asked")]
    fn asked(
        &self,
        id: Request<Query>,
        asked: JobsData<'_, Asked>,
        cx: Cx<'_, Service>,
    ) -> Result<Answer, ServiceError> {
        let job = cx.job(id.id)?;
        Ok(Answer { asked: asked.of(job).get()?.0 })
    }

    #[service("ended")]
    fn ended(&self, ended: InstanceData<'_, Ended>) -> Result<Answer, ServiceError> {
        Ok(Answer { asked: ended.get()?.0 })
    }

    /// Raises all priorities by one.
    #[service("raise")]
    fn raise(&mut self, cx: Cx<'_, Service>) {
        self.settings.base += 1;
        cx.reprioritize_all();
    }

    #[service("later")]
    async fn later(remote: Remote<Self>) -> Result<Answer, ServiceError> {
        remote.sleep(0.01).await?;
        Ok(Answer { asked: 7 })
    }
}

/// A request about a job.
#[derive(Debug, Deserialize)]
pub struct Query {
    id: JobId,
}

/// A number.
#[derive(Debug, Serialize)]
pub struct Answer {
    asked: u32,
}

/// Panics where a job asks for that: `--setattr=hosted.panic=job.validate`.
#[derive(Debug, Default)]
pub struct Panics;

/// Panics if the job asks for that at this topic.
#[allow(clippy::panic)]
fn panic_at(job: &Job, topic: &str) {
    assert!(text(job, "panic") != Some(topic), "wished at {topic}");
}

#[jobtap_plugin(name = "panics")]
impl Panics {
    #[on("job.create")]
    fn create(&self, job: &Job) {
        panic_at(job, "job.create");
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) {
        panic_at(job, "job.validate");
    }

    #[on("job.dependency.panics")]
    fn dependency(&self, job: &Job) {
        panic_at(job, "job.dependency.panics");
    }

    #[on("job.new")]
    fn new_job(&self, job: &Job) {
        panic_at(job, "job.new");
    }

    #[on("job.state.*")]
    fn state(&self, job: &Job) {
        panic_at(job, &format!("job.state.{}", job.state().long_name().to_lowercase()));
    }

    #[on("job.state.run")]
    async fn prolog(job: JobInfo) -> Result<(), PrologFailed> {
        let wished = job.jobspec.attribute("hosted.panic").and_then(|value| value.as_str());
        assert!(wished != Some("prolog"), "wished in the prolog");
        if wished == Some("hang") {
            // Blocks the thread of all asynchronous handlers, which no handler may do.
            std::thread::sleep(std::time::Duration::from_secs(3600));
        }
        Ok(())
    }

    #[service("panic")]
    fn service(&self) {
        panic!("wished in the service");
    }

    #[service("later")]
    fn later(&self, remote: Remote<Self>) {
        remote.run(|_, _| panic!("wished later"));
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        panic!("wished in the query");
    }
}

/// Keeps prologs open until its service finishes them.
#[derive(Debug, Default)]
pub struct Gate {
    open: Vec<Token>,
}

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("job.state.run")]
    fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        match text(job, "gate") {
            Some("drop") => drop(cx.prolog_start("gate")?),
            Some(_) => self.open.push(cx.prolog_start("gate")?),
            None => {}
        }
        Ok(())
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
        if text(job, "gate") == Some("reopen")
            && let Ok(token) = cx.prolog_reopen(job, "gate")
        {
            self.open.push(token);
        }
    }

    #[service("lift")]
    fn lift(&mut self) {
        for token in self.open.drain(..) {
            token.finish(0);
        }
    }

    #[on("unload")]
    fn unload(&self, cx: Cx<'_, Unload>) {
        cx.log(Level::Info, format!("unload with {} open", self.open.len()));
    }
}

/// Decides about jobs asynchronously, which not every host can wait for.
#[derive(Debug, Default)]
pub struct Undecided;

#[jobtap_plugin(name = "undecided")]
impl Undecided {
    #[on("job.validate")]
    async fn validate(remote: Remote<Self>) -> Result<(), Reject> {
        remote.sleep(1.0).await.or_error()?;
        Ok(())
    }
}
