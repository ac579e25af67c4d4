//! The manager under test: the engine, its surroundings in memory, and what tests ask and assert.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::builder::TestManagerBuilder;
use super::exec::Execution;
use super::job::TestJob;
use super::processes::Processes;
use super::store::MemoryStore;
use super::tasks::Tasks;
use crate::engine::{
    Cred, Effect, Effects, Engine, ExecEvent, Input, LogLine, ReplyTo, Request, RequestError,
    RestoreError, Setup, TimerId,
};
use crate::host::{Registry, RemoteCall, RemoteSink, Ticks};
use crate::job::{JobId, Timestamp, WaitStatus};
use crate::plugin::Plugin;
use crate::resource::ResourceSet;

/// When virtual time begins.
const EPOCH: f64 = 1_700_000_000.0;

/// A manager in memory and in virtual time.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
/// #[derive(Default)]
/// struct Fifo;
/// #[jobtap_plugin(name = "fifo")]
/// impl Fifo {
///     #[on("job.state.priority", "job.priority.get")]
///     fn priority(&self, job: &Job) -> Priority {
///         Priority::clamped(2e9 - job.t_submit().as_secs())
///     }
/// }
///
/// let mut m = TestManager::new().plugin::<Fifo>().cores(1).start();
/// let first = m.submit(TestJob::new().run_for(60.0)).unwrap();
/// m.advance(1.0);
/// let second = m.submit(TestJob::new()).unwrap();
/// m.assert_state(second, State::Sched);
/// m.crash_and_restart();
/// m.advance(60.0);
/// m.assert_state(first, State::Inactive);
/// m.assert_state(second, State::Run);
/// ```
pub struct TestManager {
    engine: Option<Engine>,
    remote: Arc<Queue>,
    pub(super) store: MemoryStore,
    tasks: Tasks,
    now: Timestamp,
    /// When each timer is due, in that order.
    timers: BTreeMap<(u64, TimerId), Timestamp>,
    pub(super) replies: BTreeMap<u64, Result<Value, RequestError>>,
    /// Answers of streams so far.
    pub(super) streams: BTreeMap<u64, Vec<Value>>,
    next_reply: u64,
    pub(super) processes: Processes,
    execution: Execution,
    /// How many commits and effects are left until the manager dies.
    fuse: Option<u32>,
    pub(super) log: Vec<LogLine>,
    setup: TestManagerBuilder,
}

/// What came back for plugins.
#[derive(Default)]
struct Queue(Mutex<VecDeque<RemoteCall>>);

impl Queue {
    /// Drops what came back: it may hold handles that lead here.
    fn clear(&self) {
        let lost = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(lost);
    }
}

impl Drop for TestManager {
    fn drop(&mut self) {
        self.engine = None;
        self.tasks = Tasks::default();
        self.remote.clear();
    }
}

impl RemoteSink for Queue {
    fn send(&self, call: RemoteCall) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(call);
    }
}

impl TestManager {
    /// A manager without plugins yet, on one host with 4 cores.
    #[allow(clippy::new_ret_no_self, reason = "reads as a sentence: TestManager::new().plugin()..")]
    pub fn new() -> TestManagerBuilder {
        TestManagerBuilder {
            plugins: Vec::new(),
            schedulers: Vec::new(),
            config: json!({}),
            cores: 4,
            hosts: 0,
            lifetime: None,
            resources: None,
            ticks: Ticks::default(),
        }
    }

    /// The first start of a manager.
    pub(super) fn boot_first(setup: TestManagerBuilder) -> Result<Self, String> {
        let mut manager = Self {
            engine: None,
            remote: Arc::default(),
            store: MemoryStore::default(),
            tasks: Tasks::default(),
            now: Timestamp::from_secs(EPOCH),
            timers: BTreeMap::new(),
            replies: BTreeMap::new(),
            streams: BTreeMap::new(),
            processes: Processes::default(),
            next_reply: 0,
            execution: Execution::default(),
            fuse: None,
            log: Vec::new(),
            setup,
        };
        manager.boot()?;
        Ok(manager)
    }

    fn boot(&mut self) -> Result<(), String> {
        let registry = Registry::builder()
            .plugins(self.setup.plugins.iter().copied())
            .schedulers(self.setup.schedulers.iter().copied())
            .build()
            .map_err(|error| error.to_string())?;
        let mut resources = self.setup.all_resources().map_err(|error| error.to_string())?;
        let end = self.setup.lifetime.map_or(0.0, |seconds| EPOCH + seconds);
        resources.set_expiration(end).map_err(|error| error.to_string())?;
        self.remote = Arc::default();
        let setup = Setup {
            owner: TestJob::OWNER,
            resources,
            config: self.setup.config.clone(),
            registry,
            remote: Arc::clone(&self.remote) as Arc<dyn RemoteSink>,
            ticks: self.setup.ticks.clone(),
        };
        let mut engine = Engine::new(self.now, setup).map_err(|error| error.to_string())?;
        let checkpoint = self.store.checkpoint();
        engine.restore_checkpoint(&checkpoint).map_err(|error| error.to_string())?;
        engine.restore_nodes(self.store.resource_log())?;
        for (plugin, data) in self.store.instance_data() {
            engine.restore_instance_data(plugin, data);
        }
        for (key, text) in self.store.kept() {
            engine.restore_retained(key, text)?;
        }
        for stored in self.store.jobs() {
            let id = stored.id;
            let explain = |error: RestoreError| format!("job {id} not replayed: {error}");
            let Some(summary) = self.store.summary(id) else {
                engine.restore(stored).map_err(explain)?;
                continue;
            };
            if let Some(text) = Engine::summary_difference(stored, summary).map_err(explain)? {
                return Err(format!("job {id} is not what its log says:\n{text}"));
            }
            engine.restore_inactive(id, summary.to_owned()).map_err(explain)?;
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

    /// From now on a job gets resources only when [`allocate`](Self::allocate) gives them.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn hold_scheduling(&mut self) -> Result<(), String> {
        self.scheduling(false)
    }

    /// Gives a job in SCHED its resources, whatever its priority and whether or not jobs are
    /// scheduled.
    ///
    /// # Panics
    /// When the job isn't in SCHED, or there is nothing for it; the message shows its eventlog.
    #[track_caller]
    pub fn allocate(&mut self, id: JobId) {
        let now = self.now;
        let Some(engine) = self.engine.as_mut() else { return };
        let (granted, effects) = engine.allocate_now(now, id);
        self.settle(effects);
        assert!(granted, "job {id} can't be allocated\n{}", self.history(id));
    }

    /// From now on a job starts only when [`started`](Self::started) says so.
    pub fn hold_execution(&mut self) {
        self.execution.hold = true;
    }

    /// The execution system reports the start of a job.
    pub fn started(&mut self, id: JobId) {
        self.input(Input::Exec(ExecEvent::Started { id }));
    }

    /// From now on, what happened to jobs while the manager was dead is reported only when the test
    /// says so, by [`tell_missed`](Self::tell_missed).
    pub fn hold_missed(&mut self) {
        self.execution.hold_missed = true;
    }

    /// The execution system reports what happened to jobs while the manager was dead.
    pub fn tell_missed(&mut self) {
        for report in self.execution.missed() {
            self.input(Input::Exec(report));
        }
    }

    /// The execution system reports the end of a job with this exit code.
    pub fn finish(&mut self, id: JobId, exit_code: u8) {
        let status = WaitStatus::from_exit_code(exit_code).as_raw();
        for report in self.execution.end(id, status) {
            self.input(Input::Exec(report));
        }
    }

    /// The numbers of the signals that were sent to a job's tasks, but for those that end it.
    pub fn signals(&self, id: JobId) -> &[i32] {
        self.execution.signals.get(&id).map_or(&[], Vec::as_slice)
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

    /// The manager ends in order, as at a shutdown; [`crash_and_restart`](Self::crash_and_restart)
    /// brings it back.
    pub fn unload(&mut self) {
        let now = self.now;
        if let Some(mut engine) = self.engine.take() {
            let effects = engine.unload(now);
            self.settle(effects);
        }
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
        self.remote.clear();
        self.tasks = Tasks::default();
        self.processes.forget();
        self.timers.clear();
        if let Err(error) = self.boot() {
            panic!("the manager doesn't restart: {error}");
        }
    }

    /// From the next restart on it has these resources.
    pub fn set_resources(&mut self, resources: ResourceSet) {
        self.setup.resources = Some(resources);
    }

    /// From the next restart on its host has so many cores.
    pub fn set_cores(&mut self, cores: u32) {
        self.setup.cores = cores;
    }

    /// From the next restart on it has plugin `New` in the place of `Old`, as after an update of the
    /// manager's binary.
    pub fn replace_plugin<Old: Plugin, New: Plugin>(&mut self) {
        for plugin in &mut self.setup.plugins {
            if plugin.name == Old::DESCRIPTOR.name {
                *plugin = New::DESCRIPTOR;
            }
        }
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

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    pub(super) fn request(&mut self, cred: Cred, request: Request) -> ReplyTo {
        let reply = ReplyTo(self.next_reply);
        self.next_reply += 1;
        self.input(Input::Request { reply, cred, request });
        reply
    }

    pub(super) fn answer(&mut self, reply: ReplyTo) -> Option<Result<Value, String>> {
        let answer = self.replies.remove(&reply.0)?;
        Some(answer.map_err(|error| error.text))
    }

    pub(super) fn input(&mut self, input: Input) {
        let now = self.now;
        let Some(engine) = self.engine.as_mut() else {
            return;
        };
        let effects = engine.handle(now, input);
        self.settle(effects);
    }

    /// Replaces the configuration of the next start; see [`configure`](Self::configure).
    pub(super) fn set_config(&mut self, config: Value) {
        self.setup.config = config;
    }

    /// Lets what has come back be worked on.
    pub(super) fn come_to_rest(&mut self) {
        self.settle(Effects::default());
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
            let came_back =
                self.remote.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
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
                Effect::Respond { to, payload } => {
                    self.streams.entry(to.0).or_default().push(payload);
                }
                Effect::Process { plugin, command } => self.processes.follow(plugin, command),
                Effect::Publish { .. } | Effect::Announce { .. } => {}
                Effect::Exec(command) => inputs.extend(self.execution.execute(&command)),
                Effect::Timer { id, at } if at <= self.now => inputs.push_back(Input::Timer(id)),
                Effect::Timer { id, at } => {
                    // Times are positive, so their bits are in the order of their values.
                    self.timers.insert((at.as_secs().to_bits(), id), at);
                }
                Effect::Spawn(task) => self.tasks.spawn(task),
            }
        }
    }
}
