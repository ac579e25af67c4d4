//! The engine in virtual time, with an executor that lets each job run as long as the trace says, and without a
//! store.
//!
//! At the same moment, jobs end first, in the order of their submission; then timers fire; then planned requests
//! are made; then jobs are submitted, in the order of the trace. The scheduler has its turn after each of these.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::order::Order;
use super::results::{AllocationFigures, RefusedJobs, Results, SimulatedJob, spans};
use super::trace::TraceJob;
use super::waits::Waits;
use crate::allocation::Tables;
use crate::engine::{
    Cred, Effect, Effects, Engine, ExecCommand, ExecEvent, ExecStart, HostCheck, Input, JobLog,
    Level, ReplyTo, Request, RequestError, Requester, StartError, Submission, TimerId,
};
use crate::eventlog::{Event, EventEntry};
use crate::host::errno::ENOSYS;
use crate::host::{
    BlockingCommand, ProcessCommand, Registry, RemoteQueue, RemoteSink, RpcCommand, Ticks,
};
use crate::job::{JobId, JobResult, Timestamp, Uid, Urgency, WaitStatus};
use crate::jobspec::Jobspec;
use crate::plugin::{ProcessEnd, ServiceError};
use crate::queue::Target;
use crate::resource::ResourceSet;
use crate::testing::{OuterManager, TestTasks};

/// The start of a simulation whose trace has no start time, in UNIX seconds.
pub(super) const EPOCH: f64 = 1_700_000_000.0;

/// The seconds of virtual time that a simulation waits for pending jobs when nothing runs and nothing more is
/// submitted. A plugin's timer may release them; jobs that are still pending after that never start.
const PATIENCE: f64 = 30.0 * 86_400.0;

/// The maximum number of lines of the manager's log, and of reasons of refusals, in the results.
const LOG_LINES: usize = 200;

/// The owner of a simulated instance.
const OWNER: Uid = Uid(0);

/// The parameters of a simulator.
pub struct Setup {
    /// The configuration of the instance, an object.
    pub config: Value,
    /// The directory of the configuration, to which file names in the configuration are relative.
    pub config_directory: Option<PathBuf>,
    /// The plugins and schedulers.
    pub registry: Registry,
    /// All resources.
    pub resources: ResourceSet,
    /// The clocks that measure the cost of handlers; the default ones stand still.
    pub ticks: Ticks,
    /// The time of second 0 of the trace, in UNIX seconds; `None` is some moment in November 2023.
    pub start: Option<f64>,
    /// The maximum number of jobs whose allocated cores are recorded, which takes memory.
    pub places: usize,
    /// How many seconds each allocation waits that an elastic instance asks for.
    pub queue_wait: Box<dyn FnMut() -> f64>,
}

/// A manager in virtual time, to which jobs are submitted one by one in the order of their submission times.
pub struct Simulator {
    engine: Engine,
    remote: Arc<RemoteQueue>,
    tasks: TestTasks,
    /// The time of second 0, in UNIX seconds. All other times are seconds since then.
    start: f64,
    now: f64,
    ends: BinaryHeap<Reverse<(u64, JobId, u64)>>,
    /// Timers by the bits of their times. The bits have the same order as the times, since these are positive.
    timers: BinaryHeap<Reverse<(u64, TimerId)>>,
    plans: VecDeque<(f64, Request)>,
    running: FxHashMap<JobId, Running>,
    /// Active jobs, with their places in `results.jobs`.
    active: FxHashMap<JobId, Active>,
    /// Jobs that wait for the response to their submission, by their places in `results.jobs`.
    unanswered: FxHashMap<u64, Unanswered>,
    order: Order,
    /// The tables of an elastic instance, and the job manager that it asks for allocations.
    tables: Tables,
    outer: OuterManager,
    names: FxHashMap<u32, (Option<Box<str>>, Option<u32>)>,
    places: usize,
    starts: u64,
    events: u64,
    /// The time since which nothing has run, after the last submission.
    idle_since: Option<f64>,
    waits: Waits,
    results: Results,
}

/// A job that the executor runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    /// Distinguishes the entries of a job in `ends`.
    start: u64,
}

/// A job that waits for the response to its submission.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    run_time: f64,
    /// The urgency that the owner gives the job after the response.
    urgency: Option<u8>,
}

/// An active job.
#[derive(Debug, Clone, Copy)]
struct Active {
    place: usize,
    run_time: f64,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.tasks = TestTasks::default();
        self.remote.clear();
    }
}

impl Simulator {
    /// Starts a manager.
    ///
    /// # Errors
    /// Those of a manager: the configuration has a mistake, or a plugin refuses it.
    pub fn new(setup: Setup) -> Result<Self, StartError> {
        let Setup {
            config,
            config_directory,
            registry,
            resources,
            ticks,
            start,
            places,
            queue_wait,
        } = setup;
        // The engine refuses tables with mistakes.
        let tables = Tables::read(&config).unwrap_or_default();
        let cores = match tables.is_empty() {
            true => resources.ncores(),
            false => tables.ncores(),
        };
        let mut outer = OuterManager::default();
        outer.let_wait(queue_wait);
        let start = start.unwrap_or(EPOCH);
        let now = Timestamp::from_secs(start);
        let remote: Arc<RemoteQueue> = Arc::default();
        let results = Results { cores, start, ..Results::default() };
        let mut engine = Engine::new(
            now,
            crate::engine::Setup {
                owner: OWNER,
                resources,
                config,
                config_directory,
                registry,
                remote: Arc::clone(&remote) as Arc<dyn RemoteSink>,
                ticks,
                host_check: HostCheck::default(),
            },
        )?;
        let effects = engine.start(now);
        let mut simulator = Self {
            engine,
            remote,
            tasks: TestTasks::default(),
            start,
            now: 0.0,
            ends: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            plans: VecDeque::new(),
            running: FxHashMap::default(),
            active: FxHashMap::default(),
            unanswered: FxHashMap::default(),
            order: Order::default(),
            tables,
            outer,
            names: FxHashMap::default(),
            places,
            starts: 0,
            events: 0,
            idle_since: None,
            waits: Waits::default(),
            results,
        };
        simulator.settle(effects);
        simulator.start_queues();
        Ok(simulator)
    }

    /// Starts all queues, as an administrator does in a new instance, where named queues are stopped at first.
    fn start_queues(&mut self) {
        let (target, reason) = (Target::all(), None);
        let request = Request::QueueStart { target, start: true, reason, nocheckpoint: false };
        let (reply, cred) = (ReplyTo(PLANNED), Cred { userid: OWNER, owner: true });
        let effects = self.engine.handle(self.timestamp(), Input::Request { reply, cred, request });
        self.settle(effects);
    }

    /// Plans a request of the instance's owner, such as a failure of nodes or a maintenance, for a time in seconds
    /// from the start of the trace. If it is refused, the log in the results says so.
    pub fn plan(&mut self, at: f64, request: Request) {
        let after = self.plans.partition_point(|(planned, _)| *planned <= at);
        self.plans.insert(after, (at, request));
    }

    /// Lets time pass until the job's submission time and submits it. If that time has passed, the job is
    /// submitted now. If only the instance's owner can give the job its urgency, the owner does so right after the
    /// submission.
    pub fn submit(&mut self, job: &TraceJob) {
        self.pass(job.submit);
        self.waits.pass(&self.engine, job.submit);
        self.now = self.now.max(job.submit);
        let place = self.results.jobs.len();
        self.results.jobs.push(SimulatedJob::submitted(job, self.now));
        let jobspec = match job.jobspec() {
            Ok(jobspec) => jobspec,
            Err(error) => return self.refuse(place, &error.to_string()),
        };
        self.names.entry(job.user).or_insert_with(|| (job.user_name.clone(), job.group));
        let userid = Uid::new(job.user);
        let cred = Cred { userid, owner: userid == OWNER };
        let by_owner = job.urgency > Urgency::DEFAULT.value() && !cred.owner;
        let urgency = if by_owner { Urgency::DEFAULT.value() } else { job.urgency };
        let submission = Submission {
            jobspec,
            signed: String::from("{}"),
            urgency: i64::from(urgency),
            flags: 0,
            elements: None,
        };
        let reply = ReplyTo(place as u64);
        let (run_time, urgency) = (job.run_time, by_owner.then_some(job.urgency));
        self.unanswered.insert(reply.0, Unanswered { run_time, urgency });
        let request = Request::Submit(Box::new(submission));
        self.input(Input::Request { reply, cred, request });
    }

    /// Lets time pass until no job is active, or the active ones never start.
    pub fn finish(&mut self) {
        while self.advance() {}
    }

    /// Lets time pass until something happens. Returns false when nothing is left to happen: no job is active, or
    /// those that are pending never start.
    pub fn advance(&mut self) -> bool {
        if self.active.is_empty() && self.unanswered.is_empty() && self.plans.is_empty() {
            return false;
        }
        if !self.running.is_empty() {
            self.idle_since = None;
        }
        let Some(at) = self.next_time() else { return false };
        let idle_since = *self.idle_since.get_or_insert(self.now);
        if self.running.is_empty() && at > idle_since + PATIENCE {
            return false;
        }
        self.pass(at);
        true
    }

    /// The time of second 0 of the trace, in UNIX seconds.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// The virtual time, in seconds from the start of the trace.
    pub fn now(&self) -> f64 {
        self.now
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_secs(self.start + self.now)
    }

    /// The number of inputs that the engine has received.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of jobs that are pending or running.
    pub fn active(&self) -> usize {
        self.active.len()
    }

    /// Read access to the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The results up to now.
    pub fn into_results(mut self) -> Results {
        let mut results = std::mem::take(&mut self.results);
        results.end = self.now;
        results.events = self.events;
        let owner = Cred { userid: OWNER, owner: true };
        let mut pending: Vec<JobId> = self.active.keys().copied().collect();
        pending.sort_unstable();
        let waits = pending.iter().filter(|id| !self.running.contains_key(id));
        let reasons = waits.take(3).filter_map(|id| Some((id, self.engine.why(*id, owner).ok()?)));
        results.left = reasons.map(|(id, why)| format!("{id}: {}", reasons_of(&why))).collect();
        results.waited_for = std::mem::take(&mut self.waits).into_seconds();
        results.allocations = (!self.tables.is_empty()).then(|| self.allocation_figures());
        results.plugins = self.engine.plugin_stats(None).unwrap_or_default();
        results.scheduler = scheduler_names(&self.engine);
        results
    }

    fn allocation_figures(&self) -> AllocationFigures {
        let used = self.outer.used(self.timestamp());
        let core_seconds = used.node_seconds.iter().map(|(table, seconds)| {
            let cores = self.tables.get(table).map_or(0, |table| table.cores);
            f64::from(cores) * seconds
        });
        AllocationFigures {
            asked: used.asked,
            started: used.started,
            mean_wait: used.waited / used.started.max(1) as f64,
            core_hours: core_seconds.sum::<f64>() / 3600.0,
        }
    }

    fn input(&mut self, input: Input) {
        let now = self.timestamp();
        self.events += 1;
        let effects = self.engine.handle(now, input);
        self.settle(effects);
    }

    /// When something happens next, in seconds from the start of the trace.
    pub fn next_time(&self) -> Option<f64> {
        let end = self.ends.peek().map(|Reverse((bits, ..))| f64::from_bits(*bits));
        let timer = self.timers.peek().map(|Reverse((bits, _))| f64::from_bits(*bits));
        let plan = self.plans.front().map(|(at, _)| *at);
        let outer = self.outer.next_time().map(|at| at.as_secs() - self.start);
        [end, timer, plan, outer].into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Handles everything that happens until this moment, in seconds from the start of the trace.
    pub fn pass(&mut self, until: f64) {
        while let Some(at) = self.next_time().filter(|at| *at <= until) {
            self.waits.pass(&self.engine, at);
            self.now = self.now.max(at);
            // A job that ends exactly at its time limit has ended in time, so ends precede timers.
            if let Some(Reverse((bits, id, start))) = self.ends.peek().copied()
                && f64::from_bits(bits) <= at + 1.0 / PER_SECOND
            {
                self.ends.pop();
                if self.running.get(&id).is_some_and(|running| running.start == start) {
                    self.end(id, 0);
                }
            } else if self.outer.next_time().is_some_and(|next| next.as_secs() - self.start <= at) {
                let reports = self.outer.pass(self.timestamp());
                reports.into_iter().for_each(|event| self.input(Input::Allocation(event)));
            } else if let Some(Reverse((bits, id))) = self.timers.peek().copied()
                && f64::from_bits(bits) <= at
            {
                self.timers.pop();
                self.input(Input::Timer(id));
            } else if let Some((_, request)) = self.plans.pop_front() {
                let cred = Cred { userid: OWNER, owner: true };
                let reply = ReplyTo(PLANNED);
                self.input(Input::Request { reply, cred, request });
            }
        }
    }

    /// Reports to the engine that all tasks of a job have exited.
    fn end(&mut self, id: JobId, status: i32) {
        self.running.remove(&id);
        self.input(Input::Exec(ExecEvent::Finished { id, status }));
        self.input(Input::Exec(ExecEvent::Released { id }));
    }

    /// Carries out effects, and handles the resulting inputs until no input is left.
    fn settle(&mut self, effects: Effects) {
        let mut inputs = VecDeque::new();
        self.take(effects, &mut inputs);
        loop {
            while let Some(input) = inputs.pop_front() {
                self.events += 1;
                let now = self.timestamp();
                let effects = self.engine.handle(now, input);
                self.take(effects, &mut inputs);
            }
            let polled = self.tasks.poll();
            let back = self.remote.pop();
            match back {
                Some(call) => inputs.push_back(Input::Remote(call)),
                None if !polled => return,
                None => {}
            }
        }
    }

    fn take(&mut self, effects: Effects, inputs: &mut VecDeque<Input>) {
        for line in effects.log {
            if matches!(line.level, Level::Error | Level::Warning) {
                self.log(line.text);
            }
        }
        // The events of a new job may come before the response with its id, so responses are handled first.
        for effect in &effects.after {
            if let Effect::Reply { to, result: Ok(answer) } = effect {
                inputs.extend(self.accepted(*to, answer));
            }
        }
        for effect in effects.after {
            match effect {
                Effect::Publish { id, log: JobLog::Main, entry, .. } => self.event(id, &entry),
                Effect::Exec(command) => self.execute(&command, inputs),
                Effect::Timer { id, at } => match self.due(at) {
                    None => inputs.push_back(Input::Timer(id)),
                    Some(at) => self.timers.push(Reverse((at.to_bits(), id))),
                },
                Effect::Reply { to, result: Err(error) } => self.refused(to, &error),
                Effect::LookUp { user } => {
                    let requester = self.requester(user);
                    inputs.push_back(Input::Requester { user, requester });
                }
                Effect::Spawn(future) => self.tasks.spawn(future),
                Effect::Blocking { command: BlockingCommand::Run(work), .. } => work.run(),
                Effect::Process { command, .. } => {
                    let ProcessCommand::Run { mut answer, .. } = *command else { continue };
                    self.results.processes += 1;
                    answer.started();
                    let status = WaitStatus::from_exit_code(0);
                    let (stdout, stderr) = (Vec::new(), Vec::new());
                    answer.send(Ok(ProcessEnd { status, stdout, stderr }));
                }
                // No service is simulated.
                Effect::Rpc { command, .. } => {
                    if let RpcCommand::Request { answer: Some(answer), .. } = command {
                        answer.send(Err(ServiceError::new(ENOSYS, "a simulation has no services")));
                    }
                }
                Effect::Resubmit(job) => {
                    let of = self.active.get(&job.of).map(|active| {
                        let run_time = active.run_time;
                        (active.place as u64, Unanswered { run_time, urgency: None })
                    });
                    let cred = Cred { userid: job.userid, owner: job.userid == OWNER };
                    let submission = Submission {
                        jobspec: Jobspec::unvalidated(job.jobspec),
                        signed: String::from("{}"),
                        urgency: job.urgency.value().into(),
                        flags: job.flags.bits(),
                        elements: None,
                    };
                    let reply = ReplyTo(of.map_or(PLANNED, |(place, _)| place));
                    self.unanswered.extend(of);
                    let submission = Ok(Box::new(submission));
                    let request = Request::Resubmit { of: job.of, submission };
                    inputs.push_back(Input::Request { reply, cred, request });
                }
                Effect::Allocation(command) => {
                    let reports = self.outer.follow(self.timestamp(), command);
                    inputs.extend(reports.into_iter().map(Input::Allocation));
                }
                Effect::Reply { .. }
                | Effect::Publish { .. }
                | Effect::Announce { .. }
                | Effect::Respond { .. }
                | Effect::Blocking { .. } => {}
            }
        }
        for (id, passes) in self.order.take_started() {
            self.change_job(id, |job| job.backfilled = passes);
        }
    }

    /// When a timer fires; `None` means at once. Events at one moment have slightly increasing times, which shifts
    /// the time limits that are counted from them; rounding undoes this.
    fn due(&self, at: Timestamp) -> Option<f64> {
        let at = at.as_secs() - self.start;
        let rounded = (at * PER_SECOND).round() / PER_SECOND;
        [rounded, at].into_iter().find(|at| *at > self.now)
    }

    fn log(&mut self, text: String) {
        self.results.log_lines += 1;
        if self.results.log.len() < LOG_LINES {
            self.results.log.push(format!("{:.0} s: {text}", self.now));
        }
    }

    fn requester(&self, user: Uid) -> Requester {
        let known = self.names.get(&user.as_u32());
        let name = known.and_then(|(name, _)| name.as_deref()).map(str::to_owned);
        Requester { name, group: known.and_then(|(_, group)| *group), ..Requester::default() }
    }

    /// Notes that a submission has become a job. Returns the request that the owner makes for it, if any.
    fn accepted(&mut self, to: ReplyTo, answer: &Value) -> Option<Input> {
        let Unanswered { run_time, urgency } = self.unanswered.remove(&to.0)?;
        let id = answer.get("id").and_then(Value::as_u64).map(JobId::new)?;
        let place = usize::try_from(to.0).ok()?;
        self.active.insert(id, Active { place, run_time });
        // The urgency of a job that has resources changes nothing, and the request would be refused.
        self.engine.job(id).filter(|job| job.resources().is_none())?;
        let request = Request::Urgency { id, urgency: i64::from(urgency?) };
        let (reply, cred) = (ReplyTo(PLANNED), Cred { userid: OWNER, owner: true });
        Some(Input::Request { reply, cred, request })
    }

    /// Notes that a submission or a planned request was refused.
    fn refused(&mut self, to: ReplyTo, error: &RequestError) {
        match (self.unanswered.remove(&to.0), usize::try_from(to.0)) {
            (Some(_), Ok(place)) => self.refuse(place, &error.text),
            _ => self.log(format!("a planned change was refused: {error}")),
        }
    }

    fn refuse(&mut self, place: usize, text: &str) {
        if let Some(job) = self.results.jobs.get_mut(place) {
            job.refused = true;
        }
        let refusals = &mut self.results.refusals;
        if let Some(refusal) = refusals.iter_mut().find(|refusal| refusal.text == text) {
            refusal.jobs += 1;
        } else if refusals.len() < LOG_LINES {
            // Texts may name the job, so that each is different: their number is limited.
            refusals.push(RefusedJobs { text: text.to_owned(), jobs: 1 });
        }
    }

    /// Notes in the results what an event says about a job.
    fn event(&mut self, id: JobId, entry: &EventEntry) {
        let at = self.now;
        match entry.event() {
            Ok(Event::Priority { priority }) => self.prioritized(id, priority),
            Ok(Event::Alloc(_)) => self.allocated(id, at),
            Ok(Event::Start) => self.change_job(id, |job| job.start = Some(at)),
            Ok(Event::Finish { status }) => self.change_job(id, |job| {
                job.end = Some(at);
                job.fail_if(status != 0, JobResult::Failed);
            }),
            Ok(Event::Exception(raised)) if raised.is_fatal() => {
                let result = JobResult::of_exception(raised.kind);
                self.change_job(id, |job| job.fail_if(true, result));
                self.order.leave(id);
            }
            Ok(Event::Free) => self.change_job(id, |job| job.freed = Some(at)),
            Ok(Event::Clean) => {
                self.order.leave(id);
                self.change_job(id, |job| {
                    job.result.get_or_insert(JobResult::Completed);
                });
                self.active.remove(&id);
            }
            _ => {}
        }
    }

    fn change_job(&mut self, id: JobId, change: impl FnOnce(&mut SimulatedJob)) {
        let place = self.active.get(&id).map(|active| active.place);
        if let Some(job) = place.and_then(|place| self.results.jobs.get_mut(place)) {
            change(job);
        }
    }

    fn prioritized(&mut self, id: JobId, priority: u32) {
        // A job of priority 0 is held: later jobs don't pass it.
        if priority > 0 {
            let queue = self.engine.job(id).and_then(|job| job.jobspec().queue().map(Box::from));
            self.order.enter(id, queue, priority);
        } else {
            self.order.leave(id);
        }
        self.change_job(id, |job| job.priority = priority);
    }

    fn allocated(&mut self, id: JobId, at: f64) {
        self.order.start(id);
        let keep = self.results.placed < self.places;
        let place = |resources: &ResourceSet| keep.then(|| spans(resources));
        let found = self.engine.job(id).and_then(|job| job.resources());
        let (cores, place) = found.map_or((None, None), |r| (Some(r.ncores()), place(r)));
        self.results.placed += usize::from(place.is_some());
        self.change_job(id, |job| {
            job.allocated = Some(at);
            job.cores = cores.map_or(job.cores, |cores| cores as u64);
            job.place = place.unwrap_or_default();
        });
    }

    fn execute(&mut self, command: &ExecCommand, inputs: &mut VecDeque<Input>) {
        match *command {
            ExecCommand::Start(ExecStart { id, .. }) => {
                self.starts += 1;
                let start = self.starts;
                self.running.insert(id, Running { start });
                let run_time = self.active.get(&id).map_or(0.0, |active| active.run_time);
                self.ends.push(Reverse(((self.now + run_time).to_bits(), id, start)));
                inputs.push_back(Input::Exec(ExecEvent::Started { id }));
            }
            ExecCommand::Cancel { id, signal } => {
                if self.running.remove(&id).is_some() {
                    let status = WaitStatus::from_signal(signal.number()).as_raw();
                    inputs.push_back(Input::Exec(ExecEvent::Finished { id, status }));
                }
                inputs.push_back(Input::Exec(ExecEvent::Released { id }));
            }
            // Jobs are handed over in their turn.
            ExecCommand::Recall { .. } | ExecCommand::Ack { .. } | ExecCommand::Signal { .. } => {}
        }
    }
}

/// The address of responses to planned requests.
const PLANNED: u64 = u64::MAX;

/// The times of ends and limits are sums of floating point numbers, so they are compared in milliseconds.
const PER_SECOND: f64 = 1e3;

/// What a job waits for, as text.
fn reasons_of(why: &Value) -> String {
    let reasons = why.get("reasons").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = reasons.filter_map(|reason| reason.get("text")?.as_str()).collect();
    texts.join("; ")
}

/// The schedulers of the queues, each once.
fn scheduler_names(engine: &Engine) -> Vec<String> {
    let overview = engine.queue_overview();
    let queues = overview.get("queues").and_then(Value::as_array).into_iter().flatten();
    let name = |queue: &Value| queue.get("scheduler").and_then(Value::as_str).map(str::to_owned);
    let mut names: Vec<String> = queues.filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}
