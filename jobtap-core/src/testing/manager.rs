//! The manager under test: the engine, its surroundings in memory, and what tests ask and assert.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::exec::Execution;
use super::job::TestJob;
use super::store::MemoryStore;
use super::tasks::Tasks;
use crate::engine::{
    Cred, Effect, Effects, Engine, Exception, ExecEvent, Input, LogLine, ReplyTo, Request,
    RequestError, Setup, TimerId,
};
use crate::job::{JobId, StateSet, Timestamp, WaitStatus};
use crate::plugin::{Plugin, PluginDescriptor, Registry, RemoteCall, RemoteSink};
use crate::resource::{Idset, ResourceSet};

/// When virtual time begins.
const EPOCH: f64 = 1_700_000_000.0;

const OWNER: Cred = Cred {
    userid: TestJob::OWNER,
    owner: true,
};

/// What a manager under test is made of.
#[derive(Debug, Clone)]
pub struct TestManagerBuilder {
    plugins: Vec<&'static PluginDescriptor>,
    config: Value,
    cores: u32,
}

impl TestManagerBuilder {
    /// Loads a plugin.
    pub fn plugin<P: Plugin>(self) -> Self {
        self.descriptor(P::DESCRIPTOR)
    }

    /// Loads a plugin by its descriptor, as a registry has it.
    pub fn descriptor(mut self, descriptor: &'static PluginDescriptor) -> Self {
        self.plugins.push(descriptor);
        self
    }

    /// The instance's configuration; a plugin's own is under `plugins.NAME`.
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// How many cores its one host has; 4 if not said.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// What the manager would refuse to start with, such as a plugin's configuration.
    pub fn try_start(self) -> Result<TestManager, String> {
        let mut manager = TestManager {
            engine: None,
            remote: Arc::default(),
            store: MemoryStore::default(),
            tasks: Tasks::default(),
            now: Timestamp::from_secs(EPOCH),
            timers: BTreeMap::new(),
            replies: BTreeMap::new(),
            next_reply: 0,
            execution: Execution::default(),
            fuse: None,
            log: Vec::new(),
            setup: self,
        };
        manager.boot()?;
        Ok(manager)
    }

    /// Starts it.
    ///
    /// # Panics
    /// Where [`try_start`](Self::try_start) gives an error.
    #[track_caller]
    pub fn start(self) -> TestManager {
        match self.try_start() {
            Ok(manager) => manager,
            Err(error) => panic!("the manager doesn't start: {error}"),
        }
    }
}

/// A manager in memory and in virtual time.
pub struct TestManager {
    engine: Option<Engine>,
    remote: Arc<Queue>,
    pub(super) store: MemoryStore,
    tasks: Tasks,
    now: Timestamp,
    /// When each timer is due, in that order.
    timers: BTreeMap<(u64, TimerId), Timestamp>,
    replies: BTreeMap<u64, Result<Value, RequestError>>,
    next_reply: u64,
    execution: Execution,
    /// How many commits and effects are left until the manager dies.
    fuse: Option<u32>,
    pub(super) log: Vec<LogLine>,
    setup: TestManagerBuilder,
}

/// What came back for plugins.
#[derive(Default)]
struct Queue(Mutex<VecDeque<RemoteCall>>);

impl RemoteSink for Queue {
    fn send(&self, call: RemoteCall) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(call);
    }
}

impl TestManager {
    /// A manager without plugins yet, on one host with 4 cores.
    #[allow(
        clippy::new_ret_no_self,
        reason = "reads as a sentence: TestManager::new().plugin().."
    )]
    pub fn new() -> TestManagerBuilder {
        TestManagerBuilder {
            plugins: Vec::new(),
            config: json!({}),
            cores: 4,
        }
    }

    fn boot(&mut self) -> Result<(), String> {
        let registry = Registry::builder()
            .plugins(self.setup.plugins.iter().copied())
            .build()
            .map_err(|error| error.to_string())?;
        let last = self.setup.cores.saturating_sub(1);
        let resources = ResourceSet::single_host("testhost", Idset::from(0..=last))
            .map_err(|error| error.to_string())?;
        self.remote = Arc::default();
        let setup = Setup {
            owner: TestJob::OWNER,
            resources,
            config: self.setup.config.clone(),
            registry,
            remote: Arc::clone(&self.remote) as Arc<dyn RemoteSink>,
        };
        let mut engine = Engine::new(self.now, setup).map_err(|error| error.to_string())?;
        engine.restore_checkpoint(&self.store.checkpoint());
        for stored in self.store.jobs() {
            let id = stored.id;
            engine
                .restore(stored)
                .map_err(|error| format!("job {id} not replayed: {error}"))?;
        }
        let effects = engine.start(self.now);
        self.engine = Some(engine);
        self.settle(effects);
        Ok(())
    }

    /// The manager's present time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Submits a job.
    ///
    /// # Errors
    /// The text that the submitter would read.
    pub fn submit(&mut self, job: TestJob) -> Result<JobId, String> {
        let (cred, submission) = job.submission()?;
        let reply = self.request(cred, Request::Submit(Box::new(submission)));
        let answer = self
            .answer(reply)
            .ok_or("the submission waits for an answer")??;
        let id = answer
            .get("id")
            .and_then(Value::as_u64)
            .ok_or("the answer has no id")?;
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
        let exception = Exception {
            kind: kind.to_owned(),
            severity,
            note: note.to_owned(),
        };
        self.ask(Request::Raise { id, exception }).map(drop)
    }

    /// Cancels all active jobs; says how many.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn cancel_all(&mut self) -> Result<u64, String> {
        let exception = Exception {
            kind: "cancel".into(),
            severity: 0,
            note: String::new(),
        };
        let states = StateSet::ACTIVE;
        let answer = self.ask(Request::RaiseAll {
            dry_run: false,
            userid: None,
            states,
            exception,
        })?;
        Ok(answer.get("count").and_then(Value::as_u64).unwrap_or(0))
    }

    /// Changes a job's urgency.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn urgency(&mut self, id: JobId, urgency: i64) -> Result<(), String> {
        self.ask(Request::Urgency { id, urgency }).map(drop)
    }

    /// Stops or starts giving out resources.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn scheduling(&mut self, start: bool) -> Result<(), String> {
        self.ask(Request::QueueStart {
            start,
            reason: None,
        })
        .map(drop)
    }

    /// Removes plugins by name or pattern.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn remove_plugin(&mut self, pattern: &str) -> Result<(), String> {
        let remove = Some(pattern.to_owned());
        self.ask(Request::Plugins {
            remove,
            load: None,
            conf: None,
        })
        .map(drop)
    }

    /// Loads a plugin by name.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn load_plugin(&mut self, name: &str, conf: Value) -> Result<(), String> {
        let load = Some(name.to_owned());
        self.ask(Request::Plugins {
            remove: None,
            load,
            conf: Some(conf),
        })
        .map(drop)
    }

    /// From now on a job starts only when [`started`](Self::started) says so.
    pub fn hold_execution(&mut self) {
        self.execution.hold = true;
    }

    /// The execution system reports the start of a job.
    pub fn started(&mut self, id: JobId) {
        self.input(Input::Exec(ExecEvent::Started { id }));
    }

    /// The execution system reports the end of a job with this exit code.
    pub fn finish(&mut self, id: JobId, exit_code: u8) {
        let status = WaitStatus::from_exit_code(exit_code).as_raw();
        for report in self.execution.end(id, status) {
            self.input(Input::Exec(report));
        }
    }

    /// The execution system reports this, whether it is true or not.
    pub fn report(&mut self, event: ExecEvent) {
        self.input(Input::Exec(event));
    }

    /// Lets time pass; what is due meanwhile happens at its time.
    pub fn advance(&mut self, seconds: f64) {
        let until = self.now + seconds;
        while let Some((&(order, id), &at)) = self.timers.first_key_value() {
            if at > until {
                break;
            }
            self.timers.remove(&(order, id));
            self.now = if at > self.now { at } else { self.now };
            self.input(Input::Timer(id));
        }
        self.now = until;
    }

    /// The manager dies here and is started again: what it committed is all that is left. Jobs that
    /// execute go on.
    ///
    /// # Panics
    /// When it does not come back.
    #[track_caller]
    pub fn crash_and_restart(&mut self) {
        self.engine = None;
        self.fuse = None;
        self.tasks = Tasks::default();
        self.timers.clear();
        if let Err(error) = self.boot() {
            panic!("the manager doesn't restart: {error}");
        }
    }

    /// From the next restart on its host has so many cores.
    pub fn set_cores(&mut self, cores: u32) {
        self.setup.cores = cores;
    }

    /// The manager is to die after so many more commits and effects, in the middle of what it does
    /// then. It answers nothing any more until [`crash_and_restart`](Self::crash_and_restart).
    pub fn crash_in(&mut self, steps: u32) {
        self.fuse = Some(steps);
    }

    /// One step nearer to the crash that was asked for; says whether it has come.
    fn burns_out(&mut self) -> bool {
        match &mut self.fuse {
            None => false,
            Some(0) => {
                self.engine = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    pub(super) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    fn ask(&mut self, request: Request) -> Result<Value, String> {
        let reply = self.request(OWNER, request);
        self.answer(reply).ok_or("the manager has not answered")?
    }

    fn request(&mut self, cred: Cred, request: Request) -> ReplyTo {
        let reply = ReplyTo(self.next_reply);
        self.next_reply += 1;
        self.input(Input::Request {
            reply,
            cred,
            request,
        });
        reply
    }

    fn answer(&mut self, reply: ReplyTo) -> Option<Result<Value, String>> {
        let answer = self.replies.remove(&reply.0)?;
        Some(answer.map_err(|error| error.text))
    }

    fn input(&mut self, input: Input) {
        let now = self.now;
        let Some(engine) = self.engine.as_mut() else {
            return;
        };
        let effects = engine.handle(now, input);
        self.settle(effects);
    }

    /// Commits, does what follows, and lets everything come to rest.
    fn settle(&mut self, effects: Effects) {
        let mut inputs = VecDeque::new();
        self.take(effects, &mut inputs);
        loop {
            while let Some(input) = inputs.pop_front() {
                let now = self.now;
                let Some(engine) = self.engine.as_mut() else {
                    return;
                };
                let effects = engine.handle(now, input);
                self.take(effects, &mut inputs);
            }
            let polled = self.tasks.poll();
            let came_back = self
                .remote
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match came_back {
                Some(call) => inputs.push_back(Input::Remote(call)),
                None if !polled => return,
                None => {}
            }
        }
    }

    fn take(&mut self, effects: Effects, inputs: &mut VecDeque<Input>) {
        if self.burns_out() {
            return;
        }
        self.store.commit(effects.writes);
        self.log.extend(effects.log);
        for effect in effects.after {
            if self.burns_out() {
                return;
            }
            match effect {
                Effect::Reply { to, result } => {
                    self.replies.insert(to.0, result);
                }
                Effect::Publish { .. } => {}
                Effect::Exec(command) => inputs.extend(self.execution.execute(&command)),
                Effect::Timer { id, at } => {
                    // Times are positive, so their bits are in the order of their values.
                    self.timers.insert((at.as_secs().to_bits(), id), at);
                }
                Effect::Spawn(task) => self.tasks.spawn(task),
            }
        }
    }
}
