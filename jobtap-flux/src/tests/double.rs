//! A double of Flux that records the calls, and a kit that runs an adapter with plugins in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobtap_core::host::{PluginDescriptor, Registry, ReplyTo, RpcKey, RpcRequest};
use jobtap_core::job::{JobId, State};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::plugin::{Level, Plugin};
use serde_json::{Map, Value, json};

use crate::adapter::{Adapter, Answer, chosen};
use crate::flux::{Errno, Flux, KvsError};
use crate::inbox::Inbox;

/// Runs before a call of Flux returns, to imitate what the real Flux does if a job is idle.
type Hook = Box<dyn Fn(&str)>;

/// The double.
#[derive(Default)]
pub(super) struct Double {
    pub(super) calls: RefCell<Vec<String>>,
    pub(super) log: RefCell<Vec<String>>,
    pub(super) kvs: RefCell<BTreeMap<String, String>>,
    pub(super) given: Option<Value>,
    pub(super) now: Cell<f64>,
    pub(super) timer: Cell<Option<f64>>,
    /// The functions that fail.
    pub(super) failing: RefCell<BTreeSet<&'static str>>,
    /// The jobs that can be looked up.
    pub(super) jobs: RefCell<BTreeMap<u64, Value>>,
    /// The requests of plugins that wait for their responses.
    pub(super) requests: RefCell<Vec<RpcKey>>,
    pub(super) hook: RefCell<Option<Hook>>,
}

impl Double {
    fn note(&self, function: &'static str, text: String) -> Result<(), Errno> {
        let call = format!("{function} {text}");
        self.calls.borrow_mut().push(call.clone());
        if let Some(hook) = &*self.hook.borrow() {
            hook(&call);
        }
        match self.failing.borrow().contains(function) {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }
}

fn number(job: JobId) -> u64 {
    job.as_u64()
}

impl Flux for Rc<Double> {
    type Json = Value;

    fn now(&self) -> f64 {
        self.now.get()
    }

    fn attribute(&self, name: &str) -> Option<String> {
        (name == "security.owner").then(|| "100".to_owned())
    }

    fn given(&self) -> Option<Value> {
        self.given.clone()
    }

    fn log(&self, level: Level, text: &str) {
        self.log.borrow_mut().push(format!("{}: {text}", level.name()));
    }

    fn add_handler(&self, topic: &str) -> Result<(), Errno> {
        self.note("add_handler", topic.to_owned())
    }

    fn service_register(&self, plugin: &str, method: &str, guests: bool) -> Result<(), Errno> {
        self.note("service", format!("{plugin}.{method} {guests}"))
    }

    fn job_lookup(&self, job: JobId) -> Result<Value, Errno> {
        self.jobs.borrow().get(&number(job)).cloned().ok_or(Errno::ENOENT)
    }

    fn job_subscribe(&self, job: JobId) -> Result<(), Errno> {
        self.note("subscribe", number(job).to_string())
    }

    fn dependency_add(&self, job: JobId, description: &str) -> Result<(), Errno> {
        self.note("dependency_add", format!("{} {description}", number(job)))
    }

    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno> {
        self.note("dependency_remove", format!("{} {description}", number(job)))
    }

    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno> {
        let context = context.map(|c| format!(" {}", Value::Object(c.clone()))).unwrap_or_default();
        self.note("post", format!("{} {name}{context}", number(job)))
    }

    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.note("prolog_finish", format!("{} {description} {status}", number(job)))
    }

    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        self.note("epilog_finish", format!("{} {description} {status}", number(job)))
    }

    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno> {
        self.note("raise", format!("{} {kind} {severity} {note}", number(job)))
    }

    fn reprioritize_job(&self, job: JobId, priority: u32) -> Result<(), Errno> {
        self.note("reprioritize", format!("{} {priority}", number(job)))
    }

    fn reprioritize_all(&self) -> Result<(), Errno> {
        self.note("reprioritize_all", String::new())
    }

    fn job_set_flag(&self, job: JobId, flag: &str) -> Result<(), Errno> {
        self.note("set_flag", format!("{} {flag}", number(job)))
    }

    fn rpc(&self, topic: &str, payload: &Value, _: String) {
        let _ = self.note("rpc", format!("{topic} {payload}"));
    }

    fn send(&self, key: RpcKey, request: &RpcRequest) -> Result<(), Errno> {
        self.requests.borrow_mut().push(key);
        self.note("send", format!("{request:?}"))
    }

    fn cancel(&self, key: RpcKey) {
        self.requests.borrow_mut().retain(|known| *known != key);
    }

    fn send_no_response(&self, topic: &str, payload: &Value) -> Result<(), Errno> {
        self.note("send_no_response", format!("{topic} {payload}"))
    }

    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, KvsError> {
        let _ = self.note("lookup", key.to_owned());
        match self.failing.borrow().contains("lookup") {
            true => Err(KvsError::Refused("the KVS is away".to_owned())),
            false => Ok(self.kvs.borrow().get(key).cloned()),
        }
    }

    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        let keys: Vec<&str> = values.iter().map(|(key, _)| key.as_str()).collect();
        let _ = self.note("commit", keys.join(" "));
        self.kvs.borrow_mut().extend(values.iter().cloned());
        Ok(())
    }

    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        self.kvs_commit(values)
    }

    fn set_timer(&self, after: Option<f64>) {
        self.timer.set(after);
    }

    fn respond(&self, to: ReplyTo, payload: &Value, is_last: bool) {
        let _ = self.note("respond", format!("{} {payload} {is_last}", to.0));
    }

    fn respond_error(&self, to: ReplyTo, errno: i32, text: &str) {
        let _ = self.note("error", format!("{} {errno} {text}", to.0));
    }
}

/// Returns the descriptor of a plugin.
pub(super) fn descriptor<P: Plugin>() -> &'static PluginDescriptor {
    P::DESCRIPTOR
}

/// An adapter with plugins, in a double of Flux.
pub(super) struct Kit {
    pub(super) flux: Rc<Double>,
    pub(super) adapter: Rc<Adapter<Rc<Double>>>,
    inbox: Arc<Inbox>,
}

impl Kit {
    /// Loads the plugins with an empty configuration.
    pub(super) fn new(plugins: &[&'static PluginDescriptor]) -> Self {
        let kit = Self::unloaded(plugins, Double::default());
        assert_eq!(kit.configure(json!({})).refusal, None);
        kit.take();
        kit
    }

    pub(super) fn unloaded(plugins: &[&'static PluginDescriptor], flux: Double) -> Self {
        let registry = Registry::builder()
            .plugins(plugins.iter().copied())
            .sequence(plugins.iter().map(|plugin| plugin.name))
            .build()
            .unwrap();
        let linked = chosen(&registry, &[]).unwrap();
        let (flux, inbox) = (Rc::new(flux), Arc::new(Inbox::new().unwrap()));
        flux.now.set(1000.0);
        let adapter = Rc::new(Adapter::new(Rc::clone(&flux), linked, Arc::clone(&inbox)));
        adapter.register().unwrap();
        Self { flux, adapter, inbox }
    }

    pub(super) fn configure(&self, config: Value) -> Answer {
        self.adapter.call("conf.update", Some(&json!({ "conf": config })))
    }

    /// Returns the calls of Flux since the last time.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.flux.calls.borrow_mut())
    }

    /// Returns what was logged since the last time.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.flux.log.borrow_mut())
    }

    /// Calls a topic for a job.
    pub(super) fn call(&self, topic: &str, id: u64, state: State, more: Value) -> Answer {
        let jobspec = JobspecBuilder::new(["true"]).to_value();
        let mut input = json!({
            "jobspec": jobspec, "id": id, "userid": 5, "urgency": 16, "state": state.value(),
            "priority": -1, "t_submit": 900.0,
        });
        if let (Value::Object(input), Value::Object(more)) = (&mut input, more) {
            input.extend(more);
        }
        self.flux.jobs.borrow_mut().insert(id, input.clone());
        self.adapter.call(topic, Some(&input))
    }

    /// Makes the call for an event of a job that leads to this state.
    pub(super) fn event(&self, id: u64, name: &str, state: State, context: Value) {
        let entry = json!({"timestamp": 950.0, "name": name, "context": context});
        self.call(&format!("job.event.{name}"), id, state, json!({ "entry": entry }));
    }

    /// Submits a job, which is in DEPEND then.
    pub(super) fn submit(&self, id: u64) {
        for topic in ["job.create", "job.validate", "job.new"] {
            assert_eq!(self.call(topic, id, State::New, json!({})).refusal, None);
        }
        self.event(id, "validate", State::Depend, json!({}));
        self.take();
    }

    /// Submits a job and takes it to RUN.
    pub(super) fn allocate(&self, id: u64) {
        self.submit(id);
        self.event(id, "depend", State::Priority, json!({}));
        self.event(id, "priority", State::Sched, json!({"priority": 16}));
        self.event(id, "alloc", State::Run, json!({}));
        self.take();
    }

    /// Runs the work that comes from other threads, until `done` returns true for the calls of Flux.
    pub(super) fn until(&self, done: impl Fn(&[String]) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done(&self.flux.calls.borrow()) {
            assert!(Instant::now() < end, "never: {:?}", self.flux.calls.borrow());
            self.adapter.wake();
            std::thread::sleep(Duration::from_millis(1));
            let _ = self.inbox.event();
        }
    }

    /// Waits until there is work in the inbox, then drops the adapter. Returns the inbox.
    pub(super) fn drop_with_work(self) -> Arc<Inbox> {
        let end = Instant::now() + Duration::from_secs(20);
        while self.inbox.is_empty() {
            assert!(Instant::now() < end, "no work has come");
            std::thread::sleep(Duration::from_millis(1));
        }
        Arc::clone(&self.inbox)
    }
}
