//! What a test asks of the manager, as clients do.

use serde_json::{Map, Value};

use super::job::TestJob;
use super::manager::TestManager;
use crate::engine::{
    Cred, DrainMode, Exception, Input, NodeRequest, ReplyTo, Request, RequestError,
};
use crate::host::HandlerStats;
use crate::job::{JobId, StateSet, Uid};
use crate::queue::Target;
use crate::resource::ResourceSet;

const OWNER: Cred = Cred { userid: TestJob::OWNER, owner: true };

/// A user as the manager sees one.
fn user(user: u32) -> Cred {
    let userid = Uid::new(user);
    Cred { userid, owner: userid == TestJob::OWNER }
}

/// A request whose answers come later, or one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestStream(ReplyTo);

impl TestManager {
    /// Submits a job.
    ///
    /// # Errors
    /// The text that the submitter would read.
    pub fn submit(&mut self, job: TestJob) -> Result<JobId, String> {
        let (cred, submission) = job.submission()?;
        let reply = self.request(cred, Request::Submit(Box::new(submission)));
        let answer = self.answer(reply).ok_or("the submission waits for an answer")??;
        let id = answer.get("id").and_then(Value::as_u64).ok_or("the answer has no id")?;
        Ok(JobId::new(id))
    }

    /// The answers to submissions that had to wait, in their order.
    pub fn late_answers(&mut self) -> Vec<Result<JobId, String>> {
        let replies = std::mem::take(&mut self.replies);
        let id = |answer: Value| answer.get("id").and_then(Value::as_u64).map(JobId::new);
        replies
            .into_values()
            .filter_map(|answer| match answer {
                Ok(answer) => id(answer).map(Ok),
                Err(error) => Some(Err(error.text)),
            })
            .collect()
    }

    /// Cancels a job as its owner would.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn cancel(&mut self, id: JobId) -> Result<(), String> {
        self.raise(id, "cancel", 0, "")
    }

    /// Raises an exception on a job.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn raise(
        &mut self,
        id: JobId,
        kind: &str,
        severity: i64,
        note: &str,
    ) -> Result<(), String> {
        let exception = Exception { kind: kind.to_owned(), severity, note: note.to_owned() };
        self.ask(Request::Raise { id, exception }).map(drop)
    }

    /// Cancels all active jobs; says how many.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn cancel_all(&mut self) -> Result<u64, String> {
        let exception = Exception { kind: "cancel".into(), severity: 0, note: String::new() };
        let states = StateSet::ACTIVE;
        let answer =
            self.ask(Request::RaiseAll { dry_run: false, userid: None, states, exception })?;
        Ok(answer.get("count").and_then(Value::as_u64).unwrap_or(0))
    }

    /// Changes a job's urgency.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn urgency(&mut self, id: JobId, urgency: i64) -> Result<(), String> {
        self.ask(Request::Urgency { id, urgency }).map(drop)
    }

    /// Begins (`start`) or ends (`finish`, with a wait status) a simulated job that was submitted with
    /// `exec.test.override`.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn override_execution(
        &mut self,
        id: JobId,
        event: &str,
        status: Option<i32>,
    ) -> Result<(), String> {
        self.ask(Request::Override { id, event: event.to_owned(), status }).map(drop)
    }

    /// Drains nodes, given by ranks or hosts: no new jobs there.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn drain_nodes(&mut self, targets: &str, reason: &str) -> Result<(), String> {
        let (targets, reason) = (targets.to_owned(), Some(reason.to_owned()));
        let mode = DrainMode::New;
        self.ask(Request::Nodes(NodeRequest::Drain { targets, reason, mode })).map(drop)
    }

    /// Ends [`drain_nodes`](Self::drain_nodes).
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn undrain_nodes(&mut self, targets: &str) -> Result<(), String> {
        let targets = targets.to_owned();
        self.ask(Request::Nodes(NodeRequest::Undrain { targets, reason: None, force: false }))
            .map(drop)
    }

    /// Loses nodes: they are drained, and their jobs end.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn lose_nodes(&mut self, targets: &str) -> Result<(), String> {
        let targets = targets.to_owned();
        self.ask(Request::Nodes(NodeRequest::Offline { targets, reason: None })).map(drop)
    }

    /// Asks for anything else about nodes.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn nodes(&mut self, request: NodeRequest) -> Result<Value, String> {
        self.ask(Request::Nodes(request))
    }

    /// Stops or starts giving out resources, in all queues.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn scheduling(&mut self, start: bool) -> Result<(), String> {
        let (target, reason) = (Target::all(), None);
        self.ask(Request::QueueStart { target, start, reason, nocheckpoint: false }).map(drop)
    }

    /// Removes plugins by name or pattern.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn remove_plugin(&mut self, pattern: &str) -> Result<(), String> {
        let remove = Some(pattern.to_owned());
        self.ask(Request::Plugins { remove, load: None, conf: None }).map(drop)
    }

    /// Puts other resources in the place of the instance's own, as a reload of R does, until the next
    /// restart.
    ///
    /// # Errors
    /// The manager's refusal, such as that jobs hold what is not there any more.
    pub fn define_resources(&mut self, resources: ResourceSet) -> Result<(), String> {
        let resources = Box::new(resources);
        self.ask(Request::Nodes(NodeRequest::Reload { resources, force: false })).map(drop)
    }

    /// Loads a plugin by name.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn load_plugin(&mut self, name: &str, conf: Value) -> Result<(), String> {
        let load = Some(name.to_owned());
        self.ask(Request::Plugins { remove: None, load, conf: Some(conf) }).map(drop)
    }

    /// Builds a plugin anew in its place.
    ///
    /// # Errors
    /// The manager's refusal; the plugin is as it was then.
    pub fn reload_plugin(&mut self, name: &str, conf: Value) -> Result<(), String> {
        let (name, conf) = (name.to_owned(), Some(conf));
        self.ask(Request::PluginReload { name, conf }).map(drop)
    }

    /// What a plugin tells of itself.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn query_plugin(&mut self, name: &str) -> Result<Value, String> {
        let name = name.to_owned();
        self.ask(Request::PluginQuery { name })
    }

    /// What a plugin's handlers did so far.
    pub fn plugin_stats(&self, name: &str) -> Vec<HandlerStats> {
        let stats = self.engine().and_then(|engine| engine.plugin_stats(Some(name)).ok());
        stats.into_iter().flatten().flat_map(|(_, handlers)| handlers).collect()
    }

    /// Gives the instance a new configuration, also for later restarts.
    ///
    /// # Errors
    /// A plugin's refusal; the configuration is as it was then.
    pub fn configure(&mut self, config: Value) -> Result<(), String> {
        let proposed = config.clone();
        self.ask(Request::Configure { config: proposed })?;
        self.set_config(config);
        Ok(())
    }

    /// Changes one place of a job's jobspec, as the owner asks for it.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn update(&mut self, id: JobId, path: &str, value: impl Into<Value>) -> Result<(), String> {
        self.update_as(TestJob::OWNER.0, id, path, value)
    }

    /// The same, as this user asks for it.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn update_as(
        &mut self,
        userid: u32,
        id: JobId,
        path: &str,
        value: impl Into<Value>,
    ) -> Result<(), String> {
        let updates: Map<String, Value> = [(path.to_owned(), value.into())].into_iter().collect();
        self.ask_as(user(userid), Request::Update { id, updates }).map(drop)
    }

    /// Forgets an inactive job.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn purge(&mut self, id: JobId) -> Result<(), String> {
        self.ask(Request::PurgeId { id, force: true }).map(drop)
    }

    /// Asks a plugin's service, `PLUGIN.METHOD`, as the owner.
    ///
    /// # Errors
    /// The service's refusal, or the manager's.
    pub fn call_service(&mut self, service: &str, payload: Value) -> Result<Value, String> {
        self.call_service_as(TestJob::OWNER.0, service, payload)
    }

    /// The same, as this user.
    ///
    /// # Errors
    /// The service's refusal, or the manager's.
    pub fn call_service_as(
        &mut self,
        userid: u32,
        service: &str,
        payload: Value,
    ) -> Result<Value, String> {
        let topic = format!("job-manager.{service}");
        self.ask_as(user(userid), Request::Service { topic, payload, streaming: false })
    }

    /// Asks a plugin's service for a stream of answers, as the owner.
    pub fn open_stream(&mut self, service: &str, payload: Value) -> TestStream {
        let topic = format!("job-manager.{service}");
        TestStream(self.request(OWNER, Request::Service { topic, payload, streaming: true }))
    }

    /// What a stream has brought since the last look, and its end once it has one: nothing, or the
    /// text of an error.
    pub fn read_stream(&mut self, stream: TestStream) -> (Vec<Value>, Option<Result<(), String>>) {
        const ENODATA: i32 = 61;
        let TestStream(to) = stream;
        let answers = self.streams.remove(&to.0).unwrap_or_default();
        let end = self.replies.remove(&to.0).map(|end| match end {
            Err(error) if error.errno != ENODATA => Err(error.text),
            _ => Ok(()),
        });
        (answers, end)
    }

    /// Makes any request, as this user; the answer may come later.
    pub fn open_request(&mut self, userid: u32, request: Request) -> TestStream {
        TestStream(self.request(user(userid), request))
    }

    /// The answer to a request of [`open_request`](Self::open_request), once it has come: a refusal
    /// with its errno.
    pub fn answered(&mut self, request: TestStream) -> Option<Result<Value, RequestError>> {
        self.replies.remove(&request.0.0)
    }

    /// Nobody waits for the answer to this request any more.
    pub fn abandon(&mut self, request: TestStream) {
        self.input(Input::Abandoned(request.0));
    }

    fn ask(&mut self, request: Request) -> Result<Value, String> {
        self.ask_as(OWNER, request)
    }

    fn ask_as(&mut self, cred: Cred, request: Request) -> Result<Value, String> {
        let reply = self.request(cred, request);
        self.answer(reply).ok_or("the manager has not answered")?
    }
}
