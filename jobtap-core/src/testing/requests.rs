//! The requests that a test sends to the manager, as clients and administrators do.

use super::job::TestJob;
use super::manager::TestManager;
use super::refused::Refused;
use crate::engine::{
    Cred, DrainMode, Engine, Input, NodeRequest, RaisedException, ReplyTo, Request, RequestError,
    ShadowReport, ShadowRequest,
};
use crate::host::HandlerStats;
use crate::job::{JobId, StateSet, Uid};
use crate::queue::{Queues, Target};
use crate::resource::ResourceSet;
use serde_json::{Map, Value};

const OWNER: Cred = Cred { userid: TestJob::OWNER, owner: true };

/// The credentials of a user.
fn user(user: u32) -> Cred {
    let userid = Uid::new(user);
    Cred { userid, owner: userid == TestJob::OWNER }
}

/// A request whose response comes later or as a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestStream(ReplyTo);

impl TestManager {
    /// Submits a job.
    ///
    /// # Errors
    /// Why the job is refused: the text is that for the submitter.
    pub fn submit(&mut self, job: TestJob) -> Result<JobId, Refused> {
        let (cred, submission) = job.submission()?;
        let reply = self.request(cred, Request::Submit(Box::new(submission)));
        let answer = self.answer(reply).ok_or(Refused::SubmissionWaits)??;
        let id = answer.get("id").and_then(Value::as_u64).ok_or(Refused::NoId)?;
        Ok(JobId::new(id))
    }

    /// The responses to submissions that were not responded to at once, in order.
    pub fn late_responses(&mut self) -> Vec<Result<JobId, Refused>> {
        let replies = std::mem::take(&mut self.replies);
        let id = |answer: Value| answer.get("id").and_then(Value::as_u64).map(JobId::new);
        replies
            .into_values()
            .filter_map(|answer| match answer {
                Ok(answer) => id(answer).map(Ok),
                Err(error) => Some(Err(error.into())),
            })
            .collect()
    }

    /// The messages that plugins have sent to users since the last call, with
    /// [`Cx::user_message`](crate::plugin::Cx::user_message): those of all responses, in order.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// #[derive(Default)]
    /// struct Greeter;
    ///
    /// #[jobtap_plugin(name = "greeter")]
    /// impl Greeter {
    ///     #[on("slurm.job_submit")]
    ///     fn submit(&self, user: SubmitUid, cx: Cx<'_, SlurmJobSubmit>) {
    ///         cx.user_message(format!("welcome, user {}", user.0));
    ///     }
    /// }
    ///
    /// let mut m = TestManager::new().plugin::<Greeter>().start();
    /// m.submit(TestJob::new().user(1001)).unwrap();
    /// assert_eq!(m.messages(), ["welcome, user 1001"]);
    /// ```
    pub fn messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Cancels a job, as the owner of the instance.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn cancel(&mut self, id: JobId) -> Result<(), Refused> {
        self.raise(id, "cancel", 0, "")
    }

    /// Raises an exception on a job.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn raise(
        &mut self,
        id: JobId,
        kind: &str,
        severity: i64,
        note: &str,
    ) -> Result<(), Refused> {
        let exception = RaisedException::new(kind, severity, note);
        self.ask(Request::Raise { id, exception }).map(drop)
    }

    /// Cancels all active jobs and returns their number.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn cancel_all(&mut self) -> Result<u64, Refused> {
        let exception = RaisedException::new("cancel", 0, "");
        let states = StateSet::ACTIVE;
        let answer =
            self.ask(Request::RaiseAll { dry_run: false, userid: None, states, exception })?;
        Ok(answer.get("count").and_then(Value::as_u64).unwrap_or(0))
    }

    /// Changes the urgency of a job.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn urgency(&mut self, id: JobId, urgency: i64) -> Result<(), Refused> {
        self.ask(Request::Urgency { id, urgency }).map(drop)
    }

    /// Starts (`start`) or finishes (`finish`, with a wait status) a simulated job that was submitted with
    /// `exec.test.override`.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn override_execution(
        &mut self,
        id: JobId,
        event: &str,
        status: Option<i32>,
    ) -> Result<(), Refused> {
        self.ask(Request::Override { id, event: event.to_owned(), status }).map(drop)
    }

    /// Drains nodes, which are given by ranks or hosts.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn drain_nodes(&mut self, targets: &str, reason: &str) -> Result<(), Refused> {
        let (targets, reason) = (targets.to_owned(), Some(reason.to_owned()));
        let mode = DrainMode::New;
        self.ask(Request::Nodes(NodeRequest::Drain { targets, reason, mode })).map(drop)
    }

    /// Undrains nodes, which are given by ranks or hosts.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn undrain_nodes(&mut self, targets: &str) -> Result<(), Refused> {
        let (targets, mode) = (targets.to_owned(), DrainMode::New);
        self.ask(Request::Nodes(NodeRequest::Undrain { targets, reason: None, mode })).map(drop)
    }

    /// Declares nodes as lost: they are drained, and their jobs fail.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn lose_nodes(&mut self, targets: &str) -> Result<(), Refused> {
        let targets = targets.to_owned();
        self.ask(Request::Nodes(NodeRequest::Offline { targets, reason: None })).map(drop)
    }

    /// Sends any other request about nodes.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn nodes(&mut self, request: NodeRequest) -> Result<Value, Refused> {
        self.ask(Request::Nodes(request))
    }

    /// Starts or stops scheduling in all queues.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn scheduling(&mut self, start: bool) -> Result<(), Refused> {
        let (target, reason) = (Target::all(), None);
        self.ask(Request::QueueStart { target, start, reason, nocheckpoint: false }).map(drop)
    }

    /// Removes plugins by name or pattern.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn remove_plugin(&mut self, pattern: &str) -> Result<(), Refused> {
        let remove = Some(pattern.to_owned());
        self.ask(Request::Plugins { remove, load: None, conf: None }).map(drop)
    }

    /// Replaces the resources of the instance until the next restart, as a reload of R does.
    ///
    /// # Errors
    /// The message with which the manager refuses, for instance because removed resources are allocated.
    pub fn define_resources(&mut self, resources: ResourceSet) -> Result<(), Refused> {
        let resources = Box::new(resources);
        self.ask(Request::Nodes(NodeRequest::Reload { resources, force: false })).map(drop)
    }

    /// Loads a plugin by name.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn load_plugin(&mut self, name: &str, conf: Value) -> Result<(), Refused> {
        let load = Some(name.to_owned());
        self.ask(Request::Plugins { remove: None, load, conf: Some(conf) }).map(drop)
    }

    /// Loads a plugin as a shadow: it is called beside the live plugins, and decides nothing.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # use serde_json::json;
    /// #[derive(Default)]
    /// struct NoRoot;
    ///
    /// #[jobtap_plugin(name = "no-root", load = "by-name")]
    /// impl NoRoot {
    ///     #[on("job.validate")]
    ///     fn check(&self, job: &Job) -> Result<(), Reject> {
    ///         Reject::when(job.userid() == Uid(0), "not as root")
    ///     }
    /// }
    /// let mut m = TestManager::new().linked::<NoRoot>().start();
    /// m.load_shadow("no-root", json!({})).unwrap();
    /// m.submit(TestJob::new().user(0)).unwrap();
    /// let report = m.shadow("no-root").unwrap();
    /// assert_eq!(report.refuses, 1);
    /// assert_eq!(report.differences[0].shadow, "refuses: not as root");
    /// ```
    ///
    /// # Errors
    /// The message with which the manager or the plugin refuses.
    pub fn load_shadow(&mut self, name: &str, conf: Value) -> Result<(), Refused> {
        let (name, conf) = (name.to_owned(), Some(conf));
        self.ask(Request::Shadow(ShadowRequest::Load { name, conf })).map(drop)
    }

    /// Removes a shadow.
    ///
    /// # Errors
    /// When no shadow of this name is loaded.
    pub fn remove_shadow(&mut self, name: &str) -> Result<(), Refused> {
        let name = name.to_owned();
        self.ask(Request::Shadow(ShadowRequest::Remove { name })).map(drop)
    }

    /// The query data of a shadow.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn query_shadow(&mut self, name: &str) -> Result<Value, Refused> {
        let name = name.to_owned();
        self.ask(Request::Shadow(ShadowRequest::Query { name }))
    }

    /// Makes a shadow live. Returns whether it has replaced a live plugin of the same name.
    ///
    /// # Errors
    /// The message with which the manager or the plugin refuses. Nothing has changed then.
    pub fn promote(&mut self, name: &str) -> Result<bool, Refused> {
        let name = name.to_owned();
        let done = self.ask(Request::Shadow(ShadowRequest::Promote { name }))?;
        Ok(done.get("replaced") == Some(&Value::Bool(true)))
    }

    /// Makes a live plugin a shadow. Returns whether the plugin that its promotion had replaced is live again.
    ///
    /// # Errors
    /// The message with which the manager or the plugin refuses. Nothing has changed then.
    pub fn demote(&mut self, name: &str) -> Result<bool, Refused> {
        let name = name.to_owned();
        let done = self.ask(Request::Shadow(ShadowRequest::Demote { name }))?;
        Ok(done.get("restored") == Some(&Value::Bool(true)))
    }

    /// What a shadow would have done differently; `None` if no shadow of this name is loaded, or the manager has
    /// crashed.
    pub fn shadow(&self, name: &str) -> Option<ShadowReport> {
        self.engine()?.shadow_report(name).ok()
    }

    /// Reloads a plugin with a new configuration.
    ///
    /// # Errors
    /// The message with which the manager or the plugin refuses. The plugin is then unchanged.
    pub fn reload_plugin(&mut self, name: &str, conf: Value) -> Result<(), Refused> {
        let (name, conf) = (name.to_owned(), Some(conf));
        self.ask(Request::PluginReload { name, conf }).map(drop)
    }

    /// The query data of a plugin.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn query_plugin(&mut self, name: &str) -> Result<Value, Refused> {
        let name = name.to_owned();
        self.ask(Request::PluginQuery { name })
    }

    /// The statistics of a plugin's handlers.
    pub fn plugin_stats(&self, name: &str) -> Vec<HandlerStats> {
        let stats = self.engine().and_then(|engine| engine.plugin_stats(Some(name)).ok());
        stats.into_iter().flatten().flat_map(|(_, handlers)| handlers).collect()
    }

    /// Changes the configuration of the instance, also for later restarts.
    ///
    /// # Errors
    /// The message of the manager or of a plugin. The configuration is then unchanged.
    pub fn configure(&mut self, config: Value) -> Result<(), Refused> {
        let proposed = self.config_of_kit(&config);
        self.ask(Request::Configure { config: proposed })?;
        self.set_config(config);
        Ok(())
    }

    /// Updates one path of a job's jobspec, as the owner.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn update(
        &mut self,
        id: JobId,
        path: &str,
        value: impl Into<Value>,
    ) -> Result<(), Refused> {
        self.update_as(TestJob::OWNER.0, id, path, value)
    }

    /// Updates one path of a job's jobspec, as this user.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn update_as(
        &mut self,
        userid: u32,
        id: JobId,
        path: &str,
        value: impl Into<Value>,
    ) -> Result<(), Refused> {
        let updates: Map<String, Value> = [(path.to_owned(), value.into())].into_iter().collect();
        self.ask_as(user(userid), Request::Update { id, updates }).map(drop)
    }

    /// Purges an inactive job.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn purge(&mut self, id: JobId) -> Result<(), Refused> {
        self.ask(Request::PurgeId { id, force: true }).map(drop)
    }

    /// Calls a plugin service, `PLUGIN.METHOD`, as the owner.
    ///
    /// # Errors
    /// The service's refusal, or the manager's.
    pub fn call_service(&mut self, service: &str, payload: Value) -> Result<Value, Refused> {
        self.call_service_as(TestJob::OWNER.0, service, payload)
    }

    /// Calls a plugin service, `PLUGIN.METHOD`, as this user.
    ///
    /// # Errors
    /// The service's refusal, or the manager's.
    pub fn call_service_as(
        &mut self,
        userid: u32,
        service: &str,
        payload: Value,
    ) -> Result<Value, Refused> {
        let topic = format!("job-manager.{service}");
        self.ask_as(user(userid), Request::Service { topic, payload, streaming: false })
    }

    /// Opens a stream of responses of a plugin service, as the owner.
    pub fn open_stream(&mut self, service: &str, payload: Value) -> TestStream {
        let topic = format!("job-manager.{service}");
        TestStream(self.request(OWNER, Request::Service { topic, payload, streaming: true }))
    }

    /// The responses of a stream since the last call, and its end if it has ended: `Ok`, or the message of
    /// an error.
    pub fn read_stream(&mut self, stream: TestStream) -> (Vec<Value>, Option<Result<(), Refused>>) {
        const ENODATA: i32 = 61;
        let TestStream(to) = stream;
        let answers = self.streams.remove(&to.0).unwrap_or_default();
        let end = self.replies.remove(&to.0).map(|end| match end {
            Err(error) if error.errno != ENODATA => Err(error.into()),
            _ => Ok(()),
        });
        (answers, end)
    }

    /// Sends any request as this user. The response may come later.
    pub fn open_request(&mut self, userid: u32, request: Request) -> TestStream {
        TestStream(self.request(user(userid), request))
    }

    /// The response to a request from [`open_request`](Self::open_request); `None` if the manager has not responded
    /// yet.
    pub fn answered(&mut self, request: TestStream) -> Option<Result<Value, RequestError>> {
        self.replies.remove(&request.0.0)
    }

    /// Abandons a request, as a client that disconnects does.
    pub fn abandon(&mut self, request: TestStream) {
        self.input(Input::Abandoned(request.0));
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<Value, Refused> {
        self.ask_as(OWNER, request)
    }

    fn ask_as(&mut self, cred: Cred, request: Request) -> Result<Value, Refused> {
        let reply = self.request(cred, request);
        self.answer(reply).ok_or(Refused::Unanswered)?
    }

    /// Starts a queue. Named queues are stopped initially.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn start_queue(&mut self, name: &str) -> Result<(), Refused> {
        self.set_start(Target::named(name), true, None)
    }

    /// Starts all queues.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn start_queues(&mut self) -> Result<(), Refused> {
        self.set_start(Target::all(), true, None)
    }

    /// Stops a queue, optionally with a reason.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn stop_queue(&mut self, name: &str, reason: Option<&str>) -> Result<(), Refused> {
        self.set_start(Target::named(name), false, reason)
    }

    /// Enables submission to a queue.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn enable_queue(&mut self, name: &str) -> Result<(), Refused> {
        let (target, reason) = (Target::named(name), None);
        self.change(Request::QueueEnable { target, enable: true, reason })
    }

    /// Disables submission to a queue.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn disable_queue(&mut self, name: &str, reason: &str) -> Result<(), Refused> {
        let (target, reason) = (Target::named(name), Some(reason.to_owned()));
        self.change(Request::QueueEnable { target, enable: false, reason })
    }

    /// The queues as plugins see them; `None` if the manager has crashed.
    pub fn queues(&self) -> Option<&Queues> {
        self.engine().map(Engine::queues)
    }

    /// The status object of a queue (RFC 33), which also says whether its scheduler is offline.
    ///
    /// # Errors
    /// The message that there is no such queue.
    pub fn queue_status(&self, name: &str) -> Result<Value, Refused> {
        let engine = self.engine().ok_or(Refused::Dead)?;
        Ok(engine.queue_status(Some(name))?)
    }

    fn set_start(
        &mut self,
        target: Target,
        start: bool,
        reason: Option<&str>,
    ) -> Result<(), Refused> {
        let (reason, nocheckpoint) = (reason.map(str::to_owned), false);
        self.change(Request::QueueStart { target, start, reason, nocheckpoint })
    }

    fn change(&mut self, request: Request) -> Result<(), Refused> {
        let reply = self.request(OWNER, request);
        self.answer(reply).ok_or(Refused::Unanswered)?.map(drop)
    }
}
