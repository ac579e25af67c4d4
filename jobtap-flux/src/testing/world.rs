//! The functions of Flux over jobs in memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CStr;
use std::io;
use std::rc::Rc;

use jobtap_core::eventlog::EventEntry;
use jobtap_core::host::{BlockingCommand, PluginKey, ProcessCommand, ReplyTo, Task};
use jobtap_core::job::{JobId, State, Timestamp, merge_annotations};
use jobtap_core::jobspec::path;
use jobtap_core::plugin::Level;
use jobtap_core::testing::{TestJob, TestProcesses, TestTasks};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::flux::{Errno, Flux, Lend};
use crate::runtime::Workers;

impl Lend for Value {
    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_value(self.clone()).map_err(|error| error.to_string())
    }

    fn get(&self, key: &str) -> Option<Self> {
        Value::get(self, key).cloned()
    }

    fn integer(&self, key: &CStr) -> Option<i64> {
        Value::get(self, key.to_str().ok()?)?.as_i64()
    }
}

/// A job of the job manager's.
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
    /// The prologs and epilogs that have started and not finished.
    pub(super) open: BTreeSet<String>,
    /// The job manager has posted the event that leads to the next state, or sent the start request.
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

    /// The arguments of a callback about this job.
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

    /// Follows an event.
    pub(super) fn follow(&mut self, entry: &EventEntry) {
        self.log.push(entry.clone());
        let context = |key: &str| entry.context.as_ref().and_then(|context| context.get(key));
        let text = |key: &str| context(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let before = self.state;
        match &*entry.name {
            "validate" => self.state = State::Depend,
            "dependency-add" => drop(self.dependencies.insert(text("description"))),
            "dependency-remove" => drop(self.dependencies.remove(&text("description"))),
            "depend" if self.state == State::Depend => self.state = State::Priority,
            "priority" => {
                self.priority = context("priority").and_then(Value::as_i64).unwrap_or(-1);
                if self.state == State::Priority {
                    self.state = State::Sched;
                }
            }
            "urgency" | "jobspec-update" => {
                if let Some(urgency) = context("urgency").and_then(Value::as_i64) {
                    self.urgency = urgency;
                } else if entry.name == "jobspec-update" {
                    for (place, value) in entry.context.iter().flatten() {
                        // The adapter has checked it.
                        let _ = path::set(&mut self.jobspec, place, value.clone());
                    }
                }
                if self.state == State::Sched {
                    self.state = State::Priority;
                }
            }
            "memo" => self.remember(entry.context.clone().unwrap_or_default().into()),
            "alloc" => self.state = State::Run,
            "prolog-start" | "epilog-start" => drop(self.open.insert(text("description"))),
            "prolog-finish" | "epilog-finish" => drop(self.open.remove(&text("description"))),
            "start" => self.is_started = true,
            "finish" => self.has_finished = true,
            "clean" => self.state = State::Inactive,
            _ => {}
        }
        if (entry.fatal_exception().is_some() || entry.name == "finish")
            && !matches!(self.state, State::Cleanup | State::Inactive)
        {
            self.state = State::Cleanup;
            self.end_event = Some(entry.clone());
        }
        if self.state != before {
            self.is_moving = false;
        }
    }

    /// Takes a memo, which is shown below `user`.
    fn remember(&mut self, memo: Map<String, Value>) {
        let notes = [("user".to_owned(), Value::Object(memo))].into_iter().collect();
        merge_annotations(&mut self.annotations, notes);
    }

    /// Whether it waits for a dependency.
    pub(super) fn is_held(&self) -> bool {
        !self.dependencies.is_empty()
    }
}

/// What was asked of the job manager and is not done yet.
#[derive(Debug)]
pub(super) enum Posted {
    /// An event of a job.
    Event(JobId, EventEntry),
    /// A new priority of a job.
    Priority(JobId, u32),
    /// New priorities of all jobs.
    Priorities,
}

/// What plugins run beside their callbacks, on the test's own thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) tasks: RefCell<TestTasks>,
    pub(super) processes: RefCell<TestProcesses>,
}

impl Workers for Rc<Work> {
    fn spawn(&self, task: Task) {
        self.tasks.borrow_mut().spawn(task);
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
    /// A transaction of the KVS is under way.
    pub(super) is_committing: Cell<bool>,
    pub(super) work: Rc<Work>,
    kvs: RefCell<BTreeMap<String, String>>,
}

impl World {
    /// Posts an event, which happens when the present callback has returned.
    pub(super) fn post(&self, job: JobId, name: &str, context: Value) -> Result<(), Errno> {
        match self.jobs.borrow().get(&job) {
            Some(known) if known.state != State::Inactive => {}
            _ => return Err(Errno::ENOENT),
        }
        let context = match context {
            Value::Object(context) if !context.is_empty() => Some(context),
            _ => None,
        };
        let entry = EventEntry::new(Timestamp(self.now.get()), name.to_owned(), context);
        self.posted.borrow_mut().push_back(Posted::Event(job, entry));
        Ok(())
    }

    fn described(&self, job: JobId, name: &str, description: &str) -> Result<(), Errno> {
        self.post(job, name, json!({ "description": description }))
    }

    fn finished(&self, job: JobId, name: &str, what: &str, status: i32) -> Result<(), Errno> {
        self.post(job, name, json!({ "description": what, "status": status }))
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
        self.described(job, "dependency-add", description)
    }

    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno> {
        self.described(job, "dependency-remove", description)
    }

    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno> {
        self.post(job, name, Value::Object(context.cloned().unwrap_or_default()))
    }

    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.finished(job, "prolog-finish", description, status)
    }

    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.finished(job, "epilog-finish", description, status)
    }

    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno> {
        let context = json!({
            "type": kind, "severity": severity, "note": note, "userid": TestJob::OWNER,
        });
        self.post(job, "exception", context)
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
        self.post(job, "set-flags", json!({ "flags": [flag] }))
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

    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, String> {
        Ok(self.kvs.borrow().get(key).cloned())
    }

    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), String> {
        self.is_committing.set(true);
        self.kvs_commit_and_wait(values)
    }

    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), String> {
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
