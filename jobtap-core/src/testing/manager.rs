//! The manager under test: the engine with a store, an executor and timers in memory.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::builder::TestManagerBuilder;
use super::exec::Execution;
use super::hang::Watch;
use super::job::TestJob;
use super::outer::OuterManager;
use super::processes::Processes;
use super::refused::{ManagerStartError, Refused};
use super::services::TestServices;
use super::store::MemoryStore;
use super::tasks::TestTasks;
use crate::engine::{
    ArrayKey, Cred, Effect, Effects, Engine, ExecEvent, HostCheck, Input, LogLine, ReadJob,
    ReplyTo, Request, RequestError, Requester, Setup, Submission, TimerId,
};
use crate::host::{BlockingCommand, Registry, RemoteQueue, RemoteSink, Ticks};
use crate::job::{JobId, Timestamp, WaitStatus};
use crate::jobspec::Jobspec;
use crate::plugin::Plugin;
use crate::resource::ResourceSet;

/// The start of virtual time, in UNIX seconds.
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
    remote: Arc<RemoteQueue>,
    pub(super) store: MemoryStore,
    tasks: TestTasks,
    now: Timestamp,
    /// Timers by the time at which they expire.
    timers: BTreeMap<(u64, TimerId), Timestamp>,
    pub(super) replies: BTreeMap<u64, Result<Value, RequestError>>,
    /// Messages from plugins to users that the test has not read yet.
    pub(super) messages: Vec<String>,
    /// Streamed responses that the test has not read yet.
    pub(super) streams: BTreeMap<u64, Vec<Value>>,
    next_reply: u64,
    pub(super) processes: Processes,
    pub(super) services: TestServices,
    execution: Execution,
    pub(super) outer: OuterManager,
    /// The number of commits and effects that are left until the manager crashes.
    steps_until_crash: Option<u32>,
    pub(super) log: Vec<LogLine>,
    pub(super) setup: TestManagerBuilder,
    /// Ends the test if a handler doesn't return.
    _watch: Watch,
}

impl fmt::Debug for TestManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestManager").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Drop for TestManager {
    fn drop(&mut self) {
        self.engine = None;
        self.tasks = TestTasks::default();
        self.remote.clear();
    }
}

impl TestManager {
    /// A builder for a manager without plugins, on one host with 4 cores.
    #[allow(clippy::new_ret_no_self, reason = "reads as a sentence: TestManager::new().plugin()..")]
    pub fn new() -> TestManagerBuilder {
        TestManagerBuilder {
            plugins: Vec::new(),
            loaded: Vec::new(),
            schedulers: Vec::new(),
            config: json!({}),
            config_directory: None,
            cores: 4,
            hosts: 0,
            lifetime: None,
            prefill: false,
            resources: None,
            ticks: Ticks::default(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Starts a manager for the first time.
    pub(super) fn boot_first(setup: TestManagerBuilder) -> Result<Self, ManagerStartError> {
        let watch = Watch::new(setup.ticks.calls());
        let mut manager = Self {
            engine: None,
            remote: Arc::default(),
            store: MemoryStore::default(),
            tasks: TestTasks::default(),
            now: Timestamp::from_secs(EPOCH),
            timers: BTreeMap::new(),
            replies: BTreeMap::new(),
            messages: Vec::new(),
            streams: BTreeMap::new(),
            processes: Processes::default(),
            services: TestServices::default(),
            next_reply: 0,
            execution: Execution::default(),
            outer: OuterManager::default(),
            steps_until_crash: None,
            log: Vec::new(),
            setup,
            _watch: watch,
        };
        manager.boot()?;
        Ok(manager)
    }

    fn boot(&mut self) -> Result<(), ManagerStartError> {
        let registry = Registry::builder()
            .plugins(self.setup.plugins.iter().copied())
            .schedulers(self.setup.schedulers.iter().copied())
            .build()?;
        let mut resources = self.setup.all_resources()?;
        let end = self.setup.lifetime.map_or(0.0, |seconds| EPOCH + seconds);
        resources.set_expiration(end)?;
        self.remote = Arc::default();
        let setup = Setup {
            owner: TestJob::OWNER,
            resources,
            config: self.setup.config_of_kit(&self.setup.config),
            config_directory: self.setup.config_directory.clone(),
            registry,
            remote: Arc::clone(&self.remote) as Arc<dyn RemoteSink>,
            ticks: self.setup.ticks.clone(),
            host_check: HostCheck::default(),
        };
        let mut engine = Engine::new(self.now, setup)?;
        let checkpoint = self.store.checkpoint();
        engine.restore_checkpoint(&checkpoint)?;
        let restored = engine.restore_allocations(self.store.allocation_log());
        restored.map_err(|error| ManagerStartError::Stored(error.into()))?;
        let restored = engine.restore_nodes(self.store.resource_log());
        restored.map_err(|error| ManagerStartError::Stored(error.into()))?;
        for (plugin, data) in self.store.instance_data() {
            engine.restore_instance_data(plugin, data);
        }
        for (key, text) in self.store.retained() {
            let restored = engine.restore_retained(key, text);
            restored.map_err(|error| ManagerStartError::Stored(error.into()))?;
        }
        for id in self.store.arrays() {
            let text = |key: ArrayKey| self.store.instance(&key.of(id));
            let jobspec = text(ArrayKey::Jobspec).to_owned();
            let (elements, eventlog) = (text(ArrayKey::Elements), text(ArrayKey::Eventlog));
            let restored = engine.restore_array(id, jobspec, elements, eventlog);
            restored.map_err(|error| ManagerStartError::Stored(error.into()))?;
        }
        for stored in self.store.jobs() {
            let id = stored.id;
            let explain = |error| ManagerStartError::Unreplayed { id, error };
            let Some(summary) = self.store.summary(id) else {
                engine.restore(ReadJob::from_log(stored).map_err(explain)?);
                continue;
            };
            let difference = Engine::summary_difference(stored, summary).map_err(explain)?;
            if let Some(difference) = difference {
                return Err(ManagerStartError::Summary { id, difference });
            }
            engine.restore(ReadJob::from_summary(id, summary.into()).map_err(explain)?);
        }
        let begun = self.execution.disconnect();
        if self.setup.prefill {
            engine.use_prefill(begun);
        }
        let effects = engine.start(self.now);
        self.engine = Some(engine);
        self.settle(effects);
        Ok(())
    }

    /// The current virtual time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Stops scheduling, so that a job only gets resources from [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn hold_scheduling(&mut self) -> Result<(), Refused> {
        self.scheduling(false)
    }

    /// Allocates resources to a job in SCHED, regardless of its priority and of whether scheduling is
    /// stopped.
    ///
    /// # Panics
    /// If the job isn't in SCHED or there are not enough free resources. The message shows the eventlog.
    #[track_caller]
    pub fn allocate(&mut self, id: JobId) {
        let now = self.now;
        let Some(engine) = self.engine.as_mut() else { return };
        let (granted, effects) = engine.allocate_now(now, id);
        self.settle(effects);
        assert!(granted, "job {id} can't be allocated\n{}", self.history(id));
    }

    /// From now on, jobs start only when the test calls [`started`](Self::started).
    pub fn hold_execution(&mut self) {
        self.execution.hold = true;
    }

    /// Lets the executor report the start of a job.
    pub fn started(&mut self, id: JobId) {
        self.input(Input::Exec(ExecEvent::Started { id }));
    }

    /// Holds back the reports of what happened to jobs while the manager was down, until
    /// [`report_missed`](Self::report_missed) is called.
    pub fn hold_missed(&mut self) {
        self.execution.hold_missed = true;
    }

    /// Lets the executor report what happened to jobs while the manager was down.
    pub fn report_missed(&mut self) {
        for report in self.execution.missed() {
            self.input(Input::Exec(report));
        }
    }

    /// Lets the tasks of a job exit with this code.
    pub fn finish(&mut self, id: JobId, exit_code: u8) {
        let status = WaitStatus::from_exit_code(exit_code).as_raw();
        let reports = self.execution.end(self.now, id, status);
        for report in self.execution.send(reports) {
            self.input(Input::Exec(report));
        }
    }

    /// From now on, what the manager and its executor say to each other is on its way until the test calls
    /// [`command_arrives`](Self::command_arrives) and [`report_arrives`](Self::report_arrives). A crash loses it.
    pub fn delay_execution(&mut self) {
        self.execution.delay();
    }

    /// Lets the executor get the oldest command that is on its way.
    pub fn command_arrives(&mut self) {
        self.execution.arrive(self.now);
    }

    /// Lets the manager get the oldest report that is on its way. Returns whether there was one.
    pub fn report_arrives(&mut self) -> bool {
        let report = self.execution.take_report();
        let any = report.is_some();
        report.into_iter().for_each(|report| self.input(Input::Exec(report)));
        any
    }

    /// The jobs whose tasks run, whether the manager knows it or not.
    pub fn executing(&self) -> Vec<JobId> {
        self.execution.running().collect()
    }

    /// The signals that were sent to the tasks of a job, by number, except those that end the job.
    pub fn signals(&self, id: JobId) -> &[i32] {
        self.execution.signals.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Lets the executor report an event, even if it contradicts the state of the job.
    pub fn report(&mut self, event: ExecEvent) {
        self.input(Input::Exec(event));
    }

    /// Advances virtual time. Timers expire in order at their time.
    pub fn advance(&mut self, seconds: f64) {
        let until = self.now + seconds;
        loop {
            let timer = self.timers.first_key_value().map(|(key, at)| (*key, *at));
            let timer = timer.filter(|(_, at)| *at <= until);
            let outer = self.outer.next_time().filter(|at| *at <= until);
            let due = |at: Timestamp, now: Timestamp| if at > now { at } else { now };
            match (timer, outer) {
                (Some((_, at)), Some(outer)) if outer > at => {}
                (_, Some(outer)) => {
                    self.now = due(outer, self.now);
                    let reports = self.outer.pass(self.now);
                    reports.into_iter().for_each(|event| self.input(Input::Allocation(event)));
                    continue;
                }
                _ => {}
            }
            let Some((key, at)) = timer else { break };
            self.timers.remove(&key);
            self.now = due(at, self.now);
            self.input(Input::Timer(key.1));
        }
        self.now = until;
    }

    /// Sets the clock forward by so many seconds, as an administrator or a host that wakes does. Timers with a time
    /// expire if that has passed then; nothing that counts seconds does, such as the time limit of a job.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// # #[derive(Default)]
    /// # struct Fifo;
    /// # #[jobtap_plugin(name = "fifo")]
    /// # impl Fifo {
    /// #     #[on("job.state.priority")]
    /// #     fn priority(&self) -> Priority {
    /// #         Priority::clamped(16.0)
    /// #     }
    /// # }
    /// let mut manager = TestManager::new().plugin::<Fifo>().cores(1).start();
    /// let job = manager.submit(TestJob::new().duration(60.0)).unwrap();
    /// manager.set_clock_forward(3600.0);
    /// manager.assert_state(job, State::Run);
    /// manager.advance(60.0);
    /// manager.assert_exception(job, "timeout", "resource allocation expired");
    /// ```
    pub fn set_clock_forward(&mut self, seconds: f64) {
        self.now += seconds;
        self.input(Input::WentForward { by: seconds });
        self.advance(0.0);
    }

    /// Shuts the manager down. [`crash_and_restart`](Self::crash_and_restart) starts it again.
    pub fn unload(&mut self) {
        let now = self.now;
        if let Some(mut engine) = self.engine.take() {
            let effects = engine.finish(now);
            self.settle(effects);
        }
    }

    /// Lets the manager crash and starts it again from what it has committed. Tasks of jobs keep running.
    ///
    /// # Panics
    /// If the manager can't start.
    #[track_caller]
    pub fn crash_and_restart(&mut self) {
        self.engine = None;
        self.steps_until_crash = None;
        self.remote.clear();
        self.tasks = TestTasks::default();
        self.processes.forget();
        self.services.forget();
        self.timers.clear();
        if let Err(error) = self.boot() {
            panic!("the manager doesn't restart: {error}");
        }
    }

    /// Sets the resources from the next restart on.
    pub fn set_resources(&mut self, resources: ResourceSet) {
        self.setup.resources = Some(resources);
    }

    /// Sets the number of cores of each host from the next restart on.
    pub fn set_cores(&mut self, cores: u32) {
        self.setup.cores = cores;
    }

    /// Replaces plugin `Old` by `New` from the next restart on, as an update of the manager's binary does.
    pub fn replace_plugin<Old: Plugin, New: Plugin>(&mut self) {
        for plugin in &mut self.setup.plugins {
            if plugin.name == Old::DESCRIPTOR.name {
                *plugin = New::DESCRIPTOR;
            }
        }
    }

    /// Lets the manager crash after this many more commits and effects. It does not respond any more until
    /// [`crash_and_restart`](Self::crash_and_restart).
    pub fn crash_in(&mut self, steps: u32) {
        self.steps_until_crash = Some(steps);
    }

    /// Counts one commit or effect. Returns true if the manager crashes before it.
    fn step_towards_crash(&mut self) -> bool {
        match &mut self.steps_until_crash {
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

    /// The engine, for what requests don't show.
    #[doc(hidden)]
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    pub(super) fn request(&mut self, cred: Cred, request: Request) -> ReplyTo {
        let reply = ReplyTo(self.next_reply);
        self.next_reply += 1;
        self.input(Input::Request { reply, cred, request });
        reply
    }

    pub(super) fn answer(&mut self, reply: ReplyTo) -> Option<Result<Value, Refused>> {
        let answer = self.replies.remove(&reply.0)?;
        Some(answer.map_err(Refused::from))
    }

    pub(super) fn input(&mut self, input: Input) {
        let now = self.now;
        let Some(engine) = self.engine.as_mut() else {
            return;
        };
        let effects = engine.handle(now, input);
        self.settle(effects);
    }

    /// Returns `proposed` with what the test kit adds.
    pub(super) fn config_of_kit(&self, proposed: &Value) -> Value {
        self.setup.config_of_kit(proposed)
    }

    /// Replaces the configuration of the next start; see [`configure`](Self::configure).
    pub(super) fn set_config(&mut self, config: Value) {
        self.setup.config = config;
    }

    /// Handles the calls of asynchronous handlers until no call is left.
    pub(super) fn settle_all(&mut self) {
        self.settle(Effects::default());
    }

    /// Commits, carries out effects, and handles the resulting inputs until no input is left.
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
            let came_back = self.remote.pop();
            match came_back {
                Some(call) => inputs.push_back(Input::Remote(call)),
                None if !polled => return,
                None => {}
            }
        }
    }

    fn take(&mut self, effects: Effects, inputs: &mut VecDeque<Input>) {
        if self.step_towards_crash() {
            return;
        }
        self.store.commit(effects.writes.into_list());
        self.log.extend(effects.log);
        for effect in effects.after {
            if self.step_towards_crash() {
                return;
            }
            match effect {
                Effect::Reply { to, result } => {
                    self.messages.extend(messages(&result));
                    self.replies.insert(to.0, result);
                }
                Effect::Respond { to, payload } => {
                    self.streams.entry(to.0).or_default().push(payload);
                }
                Effect::Process { plugin, command } => self.processes.follow(plugin, *command),
                Effect::Rpc { plugin, command } => {
                    let store = &self.store;
                    self.services.follow(plugin, command, |key| store.kvs(key));
                }
                Effect::Blocking { command: BlockingCommand::Run(work), .. } => work.run(),
                // Blocking work runs at once here, so none is left to drop.
                Effect::Blocking { command: BlockingCommand::DropAll, .. } => {}
                Effect::Allocation(command) => {
                    let reports = self.outer.follow(self.now, command);
                    inputs.extend(reports.into_iter().map(Input::Allocation));
                }
                Effect::Publish { .. } | Effect::Announce { .. } => {}
                Effect::Exec(command) => inputs.extend(self.execution.execute(self.now, command)),
                Effect::Timer { id, at } if at <= self.now => inputs.push_back(Input::Timer(id)),
                Effect::Timer { id, at } => {
                    // Times are positive, so their bits have the same order as their values.
                    self.timers.insert((at.as_secs().to_bits(), id), at);
                }
                Effect::Spawn(future) => self.tasks.spawn(future),
                Effect::LookUp { user } => {
                    let known = self.setup.users.get(&user.as_u32()).cloned();
                    let (name, group) = known.unzip();
                    let groups = self.setup.groups.get(&user.as_u32()).cloned();
                    let (groups, host) = (groups.unwrap_or_default(), Some("testhost".to_owned()));
                    let requester = Requester { name, group, groups, host };
                    inputs.push_back(Input::Requester { user, requester });
                }
                Effect::Resubmit(job) => {
                    let reply = ReplyTo(self.next_reply);
                    self.next_reply += 1;
                    let cred = Cred { userid: job.userid, owner: job.userid == TestJob::OWNER };
                    let submission = Submission {
                        jobspec: Jobspec::unvalidated(job.jobspec),
                        signed: json!({}).to_string(),
                        urgency: job.urgency.value().into(),
                        flags: job.flags.bits(),
                        elements: None,
                    };
                    let submission = Ok(Box::new(submission));
                    let request = Request::Resubmit { of: job.of, submission };
                    inputs.push_back(Input::Request { reply, cred, request });
                }
            }
        }
    }
}

/// The messages from plugins to the user in a response.
fn messages(result: &Result<Value, RequestError>) -> Vec<String> {
    let lines = match result {
        Ok(payload) => payload.get("messages").cloned(),
        Err(error) => return error.messages.clone(),
    };
    lines.and_then(|lines| serde_json::from_value(lines).ok()).unwrap_or_default()
}
