//! Implements the functions of Flux for jobs in memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CStr;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use jobtap_core::eventlog::{Event, EventEntry, Name, Raised};
use jobtap_core::host::{
    BlockingCommand, PluginFuture, PluginKey, ProcessCommand, ReplyTo, RpcAnswer, RpcCommand,
    RpcKey, RpcRequest,
};
use jobtap_core::job::{JobId, State, Timestamp, merge_annotations};
use jobtap_core::jobspec::path;
use jobtap_core::plugin::{Level, ServiceError};
use jobtap_core::testing::{TestJob, TestProcesses, TestServices, TestTasks};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value, json};

use crate::flux::{Errno, Flux, KvsError, Lend, ReadError};
use crate::runtime::Workers;

impl Lend for Value {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        serde_json::from_value(self.clone()).map_err(ReadError::custom)
    }

    fn get(&self, key: &str) -> Option<Self> {
        Value::get(self, key).cloned()
    }

    fn integer(&self, key: &CStr) -> Option<i64> {
        Value::get(self, key.to_str().ok()?)?.as_i64()
    }
}

/// A job in the job manager.
#[derive(Debug)]
pub(super) struct FluxJob {
    pub(super) user: u32,
    pub(super) urgency: i64,
    pub(super) state: State,
    /// -1 until it is set.
    pub(super) priority: i64,
    pub(super) t_submit: f64,
    pub(super) jobspec: Value,
    pub(super) resources: Option<Value>,
    pub(super) log: Vec<EventEntry>,
    pub(super) annotations: Map<String, Value>,
    end_event: Option<EventEntry>,
    dependencies: BTreeSet<String>,
    /// The prologs and epilogs that have started but not finished.
    pub(super) open: BTreeSet<String>,
    /// Set if the job manager has posted the event that leads to the next state, or has sent the start request.
    pub(super) is_moving: bool,
    pub(super) is_started: bool,
    pub(super) has_finished: bool,
}

impl FluxJob {
    pub(super) fn new(user: u32, urgency: i64, t_submit: f64, jobspec: Value) -> Self {
        Self {
            user,
            urgency,
            state: State::New,
            priority: -1,
            t_submit,
            jobspec,
            resources: None,
            log: Vec::new(),
            annotations: Map::new(),
            end_event: None,
            dependencies: BTreeSet::new(),
            open: BTreeSet::new(),
            is_moving: false,
            is_started: false,
            has_finished: false,
        }
    }

    /// Returns the arguments of a call for this job.
    pub(super) fn arguments(&self, id: JobId) -> Map<String, Value> {
        let mut arguments = Map::new();
        let mut set = |key: &str, value: Value| arguments.insert(key.to_owned(), value);
        set("id", id.as_u64().into());
        set("userid", self.user.into());
        set("urgency", self.urgency.into());
        set("state", self.state.value().into());
        set("priority", self.priority.into());
        set("t_submit", self.t_submit.into());
        set("jobspec", self.jobspec.clone());
        if let Some(resources) = &self.resources {
            set("R", resources.clone());
        }
        if let Some(end) = &self.end_event {
            set("end_event", json!(end));
        }
        arguments
    }

    /// Applies an event.
    pub(super) fn follow(&mut self, entry: &EventEntry) {
        self.log.push(entry.clone());
        let before = self.state;
        // An event with an incomplete context changes nothing. Flux refuses such an event.
        let Ok(event) = entry.event() else { return };
        match event {
            Event::Validate => self.state = State::Depend,
            Event::DependencyAdd { description } => {
                self.dependencies.insert(description.to_owned());
            }
            Event::DependencyRemove { description } => {
                self.dependencies.remove(description);
            }
            Event::Depend if self.state == State::Depend => self.state = State::Priority,
            Event::Priority { priority } => {
                self.priority = priority.into();
                if self.state == State::Priority {
                    self.state = State::Sched;
                }
            }
            Event::Urgency { urgency, .. } => {
                self.urgency = urgency.value().into();
                self.return_to_priority();
            }
            Event::JobspecUpdate(updates) => {
                for (place, value) in updates {
                    // This can't fail: the adapter has checked the update.
                    let _ = path::set(&mut self.jobspec, place, value.clone());
                }
                self.return_to_priority();
            }
            Event::Memo(memo) => self.remember(memo.clone().into()),
            Event::Alloc(_) => self.state = State::Run,
            Event::PrologStart { description } | Event::EpilogStart { description } => {
                self.open.insert(description.to_owned());
            }
            Event::PrologFinish { description, .. } | Event::EpilogFinish { description, .. } => {
                self.open.remove(description);
            }
            Event::Start => self.is_started = true,
            Event::Finish { .. } => {
                self.has_finished = true;
                self.end(entry);
            }
            Event::Exception(raised) if raised.is_fatal() => self.end(entry),
            Event::Clean => self.state = State::Inactive,
            _ => {}
        }
        if self.state != before {
            self.is_moving = false;
        }
    }

    fn return_to_priority(&mut self) {
        if self.state == State::Sched {
            self.state = State::Priority;
        }
    }

    fn end(&mut self, entry: &EventEntry) {
        if !matches!(self.state, State::Cleanup | State::Inactive) {
            self.state = State::Cleanup;
            self.end_event = Some(entry.clone());
        }
    }

    /// Adds a memo, which is shown below `user`.
    fn remember(&mut self, memo: Map<String, Value>) {
        let notes = [("user".to_owned(), Value::Object(memo))].into_iter().collect();
        merge_annotations(&mut self.annotations, notes);
    }

    /// Whether the job waits for a dependency.
    pub(super) fn is_held(&self) -> bool {
        !self.dependencies.is_empty()
    }
}

/// A change that was posted to the job manager but isn't applied yet.
#[derive(Debug)]
pub(super) enum Posted {
    /// An event of a job.
    Event(JobId, EventEntry),
    /// A new priority of a job.
    Priority(JobId, u32),
    /// New priorities of all jobs.
    Priorities,
}

/// The plugins' futures and processes, which run on the test's thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) tasks: RefCell<TestTasks>,
    pub(super) processes: RefCell<TestProcesses>,
}

impl Workers for Rc<Work> {
    fn spawn(&self, future: PluginFuture) {
        self.tasks.borrow_mut().spawn(future);
    }

    fn process(&self, _: PluginKey, command: ProcessCommand) {
        self.processes.borrow_mut().follow(command);
    }

    fn blocking(&self, _: PluginKey, command: BlockingCommand) {
        if let BlockingCommand::Run(work) = command {
            work.run();
        }
    }

    fn stop(&self) -> bool {
        drop(std::mem::take(&mut *self.tasks.borrow_mut()));
        true
    }
}

/// The job manager.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) jobs: RefCell<BTreeMap<JobId, FluxJob>>,
    pub(super) posted: RefCell<VecDeque<Posted>>,
    pub(super) topics: RefCell<BTreeSet<String>>,
    pub(super) log: RefCell<Vec<(Level, String)>>,
    pub(super) now: Cell<f64>,
    pub(super) timer: Cell<Option<f64>>,
    /// Whether a KVS transaction is in progress.
    pub(super) is_committing: Cell<bool>,
    pub(super) work: Rc<Work>,
    pub(super) services: TestServices,
    /// The responses that the adapter doesn't have yet.
    pub(super) responses: Responses,
    kvs: RefCell<BTreeMap<String, String>>,
}

/// Responses to requests of plugins. A service may answer from anywhere.
type Responses = Arc<Mutex<VecDeque<(RpcKey, Result<Value, ServiceError>)>>>;

/// The plugin of all requests: the adapter itself drops those of a removed plugin, by their keys.
const ANY_PLUGIN: PluginKey = PluginKey(0);

impl World {
    /// Takes the oldest response that the adapter doesn't have yet.
    pub(super) fn next_response(&self) -> Option<(RpcKey, Result<Value, ServiceError>)> {
        self.responses.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Posts an event, which is applied when the current call has returned.
    pub(super) fn post(&self, job: JobId, event: &Event<'_>) -> Result<(), Errno> {
        self.post_entry(job, event.at(Timestamp(self.now.get())))
    }

    fn post_entry(&self, job: JobId, entry: EventEntry) -> Result<(), Errno> {
        match self.jobs.borrow().get(&job) {
            Some(known) if known.state != State::Inactive => {}
            _ => return Err(Errno::ENOENT),
        }
        self.posted.borrow_mut().push_back(Posted::Event(job, entry));
        Ok(())
    }
}

impl Flux for Rc<World> {
    type Json = Value;

    fn now(&self) -> f64 {
        self.now.get()
    }

    fn attribute(&self, name: &str) -> Option<String> {
        (name == "security.owner").then(|| TestJob::OWNER.0.to_string())
    }

    fn given(&self) -> Option<Value> {
        None
    }

    fn log(&self, level: Level, text: &str) {
        self.log.borrow_mut().push((level, text.to_owned()));
    }

    fn add_handler(&self, topic: &str) -> Result<(), Errno> {
        self.topics.borrow_mut().insert(topic.to_owned());
        Ok(())
    }

    fn service_register(&self, _: &str, _: &str, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn job_lookup(&self, job: JobId) -> Result<Value, Errno> {
        let jobs = self.jobs.borrow();
        let known = jobs.get(&job).filter(|known| known.state != State::Inactive);
        known.map(|known| Value::Object(known.arguments(job))).ok_or(Errno::ENOENT)
    }

    fn job_subscribe(&self, _: JobId) -> Result<(), Errno> {
        Ok(())
    }

    fn dependency_add(&self, job: JobId, description: &str) -> Result<(), Errno> {
        self.post(job, &Event::DependencyAdd { description })
    }

    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno> {
        self.post(job, &Event::DependencyRemove { description })
    }

    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno> {
        let context = context.filter(|context| !context.is_empty()).cloned();
        let entry = EventEntry::new(Timestamp(self.now.get()), name.to_owned(), context);
        self.post_entry(job, entry)
    }

    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.post(job, &Event::PrologFinish { description, status })
    }

    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.post(job, &Event::EpilogFinish { description, status })
    }

    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno> {
        let (severity, userid) = (severity.into(), Some(TestJob::OWNER));
        let raised = Raised { kind, severity, note, userid, wait_status: None };
        self.post(job, &Event::Exception(raised))
    }

    fn reprioritize_job(&self, job: JobId, priority: u32) -> Result<(), Errno> {
        self.posted.borrow_mut().push_back(Posted::Priority(job, priority));
        Ok(())
    }

    fn reprioritize_all(&self) -> Result<(), Errno> {
        self.posted.borrow_mut().push_back(Posted::Priorities);
        Ok(())
    }

    fn job_set_flag(&self, job: JobId, flag: &str) -> Result<(), Errno> {
        let context = json!({ "flags": [flag] });
        self.event_post(job, &Name::SetFlags, context.as_object())
    }

    fn rpc(&self, topic: &str, payload: &Value, what: String) {
        self.log(Level::Debug, &format!("request {topic} {payload}"));
        if topic != "job-manager.memo" {
            return;
        }
        let id = payload.get("id").and_then(Value::as_u64).map(JobId::new);
        let memo = payload.get("memo").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut jobs = self.jobs.borrow_mut();
        match id.and_then(|id| jobs.get_mut(&id)) {
            Some(job) if job.state != State::Inactive => job.remember(memo),
            _ => self.log(Level::Error, &format!("{what}: unknown job id")),
        }
    }

    fn send(&self, key: RpcKey, request: &RpcRequest) -> Result<(), Errno> {
        let responses = Arc::clone(&self.responses);
        let answer = RpcAnswer::new(move |response| {
            responses.lock().unwrap_or_else(PoisonError::into_inner).push_back((key, response));
        });
        let send = RpcCommand::Request { key, request: request.clone(), answer: Some(answer) };
        self.services.follow(ANY_PLUGIN, send, |key| self.kvs.borrow().get(key).cloned());
        Ok(())
    }

    fn cancel(&self, key: RpcKey) {
        self.services.follow(ANY_PLUGIN, RpcCommand::Cancel { key }, |_| None);
    }

    fn send_no_response(&self, topic: &str, payload: &Value) -> Result<(), Errno> {
        let (topic, payload) = (topic.to_owned(), payload.clone());
        let request = RpcRequest::Service { topic, payload };
        let send = RpcCommand::Request { key: RpcKey(0), request, answer: None };
        self.services.follow(ANY_PLUGIN, send, |_| None);
        Ok(())
    }

    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, KvsError> {
        Ok(self.kvs.borrow().get(key).cloned())
    }

    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        self.is_committing.set(true);
        self.kvs_commit_and_wait(values)
    }

    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        self.kvs.borrow_mut().extend(values.iter().cloned());
        Ok(())
    }

    fn set_timer(&self, after: Option<f64>) {
        self.timer.set(after.map(|after| self.now.get() + after));
    }

    fn respond(&self, _: ReplyTo, _: &Value, _: bool) {}

    fn respond_error(&self, _: ReplyTo, _: i32, _: &str) {}

    fn workers(&self) -> io::Result<Box<dyn Workers>> {
        Ok(Box::new(Rc::clone(&self.work)))
    }
}
