//! A double of Flux for tests of plugins: the adapter as in a broker, with a job manager in memory that takes jobs
//! through their states in virtual time.
//!
//! It is one of the hosts of [`jobtap_core::testing::TestHosts`], so a plugin's tests run with it
//! unchanged:
//!
//! ```
//! use jobtap_core::prelude::*;
//! use jobtap_core::testing::{TestHosts, TestJob, TestManager};
//! use jobtap_flux::testing::TestFlux;
//!
//! #[derive(Default)]
//! struct Small;
//!
//! #[jobtap_plugin(name = "small")]
//! impl Small {
//!     #[on("job.validate")]
//!     fn validate(&self, job: &Job) -> Result<(), Reject> {
//!         Reject::when(job.jobspec().counts().ntasks > 8, "at most 8 tasks")
//!     }
//! }
//!
//! let hosts = TestHosts::new().plugin::<Small>().host::<TestManager>().host::<TestFlux>();
//! hosts.each(|host| {
//!     assert_eq!(host.submit(TestJob::new().ntasks(9)).unwrap_err(), "at most 8 tasks");
//!     let id = host.submit(TestJob::new().ntasks(8)).unwrap();
//!     host.run(id).unwrap();
//!     host.end(id, 0).unwrap();
//!     let events = "validate depend priority alloc start finish free clean";
//!     let has = |name: &str| host.events(id).iter().any(|event| event == name);
//!     assert!(events.split(' ').all(has));
//! });
//! ```

mod world;

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use jobtap_core::engine::RequestError;
use jobtap_core::eventlog::{Allocated, Event, EventEntry, Name};
use jobtap_core::host::{HostKind, Registry, RegistryError};
use jobtap_core::job::{JobId, State, Timestamp, Urgency, WaitStatus, merge_annotations};
use jobtap_core::jobspec::Jobspec;
use jobtap_core::plugin::{Level, Process, ProcessEnd};
use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use jobtap_core::testing::{HostSetup, Refused, RunError, TestHost, TestJob, TestServices};
use serde_json::{Value, json};

use crate::adapter::{Adapter, Answer, LoadError, chosen};
use crate::inbox::Inbox;
use world::{FluxJob, Posted, World};

/// The start of virtual time, as in the rest of the test kit.
const EPOCH: f64 = 1_700_000_000.0;

/// A double of Flux that takes jobs through their states in virtual time.
pub struct TestFlux {
    world: Rc<World>,
    adapter: Adapter<Rc<World>>,
    inbox: Arc<Inbox>,
    next_id: u64,
}

/// Why a double of Flux doesn't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestFluxError {
    /// The plugins can't be linked together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The adapter doesn't load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The way back to Flux's thread can't be made.
    #[error(transparent)]
    Inbox(#[from] io::Error),
    /// A plugin refuses the configuration.
    #[error(transparent)]
    Configuration(#[from] Refused),
}

impl fmt::Debug for TestFlux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestFlux").field("world", &self.world).finish_non_exhaustive()
    }
}

impl TestFlux {
    /// Advances virtual time. Each timer fires at its time, in order.
    pub fn advance(&mut self, seconds: f64) {
        let until = self.world.now.get() + seconds;
        while let Some(at) = self.world.timer.get().filter(|at| *at <= until) {
            self.world.now.set(at.max(self.world.now.get()));
            self.settle();
        }
        self.world.now.set(until);
    }

    /// Returns the state of a job.
    ///
    /// # Panics
    /// If there is no such job.
    #[track_caller]
    pub fn state(&self, id: JobId) -> State {
        self.read(id, |job| job.state)
    }

    /// Returns the eventlog of a job, without `submit`.
    ///
    /// # Panics
    /// If there is no such job.
    #[track_caller]
    pub fn eventlog(&self, id: JobId) -> Vec<EventEntry> {
        self.read(id, |job| job.log.clone())
    }

    /// Returns what the adapter and the plugins have logged.
    pub fn log(&self) -> Vec<(Level, String)> {
        self.world.log.borrow().clone()
    }

    /// Loads another configuration, as `flux config reload` does.
    ///
    /// # Errors
    /// The message with which a plugin refuses it.
    pub fn configure(&mut self, config: &Value) -> Result<(), Refused> {
        let answer = self.adapter.call("conf.update", Some(&json!({ "conf": config })));
        self.settle();
        answer.refusal.map_or(Ok(()), |text| Err(refused(text)))
    }

    #[track_caller]
    fn read<R>(&self, id: JobId, read: impl FnOnce(&FluxJob) -> R) -> R {
        match self.world.jobs.borrow().get(&id) {
            Some(job) => read(job),
            None => panic!("there is no job {id}"),
        }
    }

    fn change<R>(&self, id: JobId, change: impl FnOnce(&mut FluxJob) -> R) -> Option<R> {
        self.world.jobs.borrow_mut().get_mut(&id).map(change)
    }

    /// Calls a topic for a job.
    fn call(&self, topic: &str, id: JobId, more: Value) -> Answer {
        let mut arguments = self.read(id, |job| job.arguments(id));
        if let Value::Object(more) = more {
            arguments.extend(more);
        }
        let mut answer = self.adapter.call(topic, Some(&Value::Object(arguments)));
        if let Some(Value::Object(notes)) = answer.out.remove("annotations") {
            self.change(id, |job| merge_annotations(&mut job.annotations, notes));
        }
        answer
    }

    /// Makes the calls that may reject a submission.
    fn gates(&self, id: JobId, jobspec: &Value) -> Result<(), Refused> {
        let check = |answer: Answer| answer.refusal.map_or(Ok(()), |text| Err(refused(cut(text))));
        check(self.call("job.create", id, Value::Null))?;
        self.apply_posted();
        check(self.call("job.validate", id, Value::Null))?;
        self.apply_posted();
        let jobspec = Jobspec::unvalidated(jobspec.clone());
        for dependency in jobspec.dependencies()? {
            let topic = format!("job.dependency.{}", dependency.scheme);
            let topics = self.world.topics.borrow();
            if !topics.contains(&topic) && !topics.contains("job.dependency.*") {
                let scheme = dependency.scheme;
                return Err(refused(format!("dependency scheme \"{scheme}\" not supported")));
            }
            drop(topics);
            check(self.call(&topic, id, json!({ "dependency": dependency.to_value() })))?;
            self.apply_posted();
        }
        Ok(())
    }

    /// Runs everything that is due at the current time.
    fn settle(&self) {
        loop {
            self.apply_posted();
            if self.world.is_committing.take() {
                self.adapter.committed(Ok(()));
            }
            let is_due = self.world.timer.get().is_some_and(|at| at <= self.world.now.get());
            if is_due {
                self.world.timer.set(None);
                self.adapter.timer();
            } else if let Some((key, response)) = self.world.next_response() {
                self.adapter.answered(key, response);
            } else if !self.inbox.is_empty() {
                self.adapter.wake();
            } else if !self.world.work.tasks.borrow_mut().poll()
                && self.inbox.is_empty()
                && self.world.posted.borrow().is_empty()
            {
                return;
            }
        }
    }

    fn apply_posted(&self) {
        loop {
            let next = self.world.posted.borrow_mut().pop_front();
            match next {
                None => return,
                Some(Posted::Event(id, entry)) => self.apply(id, &entry),
                Some(Posted::Priority(id, priority)) => self.set_priority(id, priority.into()),
                Some(Posted::Priorities) => self.prioritize_all(),
            }
        }
    }

    /// Applies an event to a job, makes the calls for it, and does what the job manager does then.
    fn apply(&self, id: JobId, entry: &EventEntry) {
        let states = self.change(id, |job| {
            let before = job.state;
            if before != State::Inactive {
                job.follow(entry);
            }
            (before, job.state)
        });
        let Some((before, state)) = states.filter(|(before, _)| *before != State::Inactive) else {
            return;
        };
        self.call(&format!("job.event.{}", entry.name), id, json!({ "entry": entry }));
        if entry.name == Name::JobspecUpdate {
            let updates = json!({ "updates": entry.context.clone().unwrap_or_default() });
            self.call("job.update", id, updates);
        }
        if state != before {
            let topic = format!("job.state.{}", state.to_string().to_lowercase());
            let more = json!({ "prev_state": before.value(), "entry": entry });
            let answer = self.call(&topic, id, more);
            match answer.priority {
                _ if state == State::Priority => self.prioritize(id, answer.priority),
                Some(priority) if priority >= 0 => self.set_priority(id, priority),
                _ => {}
            }
        }
        self.act(id);
    }

    /// Sets the priority of a job in PRIORITY. If no plugin has set one, it is the urgency.
    fn prioritize(&self, id: JobId, of_plugins: Option<i64>) {
        let urgency = self.read(id, |job| job.urgency);
        match of_plugins.unwrap_or(urgency) {
            priority if priority >= 0 => self.set_priority(id, priority),
            _ => {}
        }
    }

    fn set_priority(&self, id: JobId, priority: i64) {
        let (state, now, urgency) = self.read(id, |job| (job.state, job.priority, job.urgency));
        let forced = Urgency::new(urgency).ok().and_then(|urgency| urgency.forced_priority());
        let priority = forced.map_or(priority, i64::from);
        if (state == State::Priority || (state == State::Sched && now != priority))
            && let Ok(priority) = u32::try_from(priority)
        {
            // Fails only for inactive jobs.
            let _ = self.world.post(id, &Event::Priority { priority });
        }
    }

    fn prioritize_all(&self) {
        let waiting: Vec<JobId> = {
            let jobs = self.world.jobs.borrow();
            let waits = |job: &FluxJob| matches!(job.state, State::Priority | State::Sched);
            jobs.iter().filter(|(_, job)| waits(job)).map(|(id, _)| *id).collect()
        };
        for id in waiting {
            let answer = self.call("job.priority.get", id, Value::Null);
            self.prioritize(id, answer.priority);
        }
    }

    /// Does what the job manager does for a job in its current state.
    fn act(&self, id: JobId) {
        let holds = |entry: &EventEntry| {
            matches!(entry.name, Name::DependencyAdd | Name::PrologStart | Name::EpilogStart)
        };
        let waits =
            self.world.posted.borrow().iter().any(
                |posted| matches!(posted, Posted::Event(of, entry) if *of == id && holds(entry)),
            );
        // The job manager terminates the tasks of a job with an exception by SIGTERM.
        const ENDED: Event<'_> = Event::Finish { status: 15 };
        let events = self.change(id, |job| {
            let events = match job.state {
                _ if job.is_moving || waits => vec![],
                State::Depend if !job.is_held() => vec![Event::Depend],
                State::Run if job.open.is_empty() && !job.is_started => vec![Event::Start],
                State::Cleanup if job.is_started && !job.has_finished => vec![ENDED],
                State::Cleanup if job.open.is_empty() => match job.resources {
                    Some(_) => vec![Event::Free, Event::Clean],
                    None => vec![Event::Clean],
                },
                _ => vec![],
            };
            job.is_moving |= !events.is_empty() && events != [ENDED];
            events
        });
        for event in events.into_iter().flatten() {
            let _ = self.world.post(id, &event);
        }
        if self.read(id, |job| job.state) == State::Inactive {
            self.call("job.inactive-add", id, Value::Null);
            self.call("job.destroy", id, Value::Null);
        }
    }

    /// Checks `is_there`. If it is false, or a fatal exception was raised after the first `seen` events, returns why.
    fn outcome(
        &self,
        id: JobId,
        seen: usize,
        is_there: impl FnOnce(&FluxJob) -> bool,
    ) -> Result<(), RunError> {
        self.read(id, |job| {
            let mut raised = job.log.iter().skip(seen).filter_map(EventEntry::fatal_exception);
            match raised.next() {
                Some(raised) => Err(RunError::Failed { note: raised.note.to_owned() }),
                None if is_there(job) => Ok(()),
                None => {
                    let (state, open) = (job.state, job.open.iter().cloned().collect());
                    Err(RunError::WaitsInFlux { state, open })
                }
            }
        })
    }
}

/// The refusal of a job or a configuration, with the errno of Flux's answer.
fn refused(text: String) -> Refused {
    const EINVAL: i32 = 22;
    RequestError::new(EINVAL, text).into()
}

/// Truncates a refusal as Flux does, to at most 159 bytes.
fn cut(mut text: String) -> String {
    const MOST: usize = 159;
    if text.len() > MOST {
        let end = (0..MOST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('+');
    }
    text
}

/// Returns an R with the resources that a job requests.
fn resources(jobspec: &Value) -> Value {
    let counts = Jobspec::unvalidated(jobspec.clone()).counts();
    let nodes = counts.nnodes.max(1);
    let cores = u32::try_from(counts.ncores().div_ceil(nodes)).unwrap_or(u32::MAX).max(1);
    let hosts: Hostlist = format!("testhost[0-{}]", nodes - 1).parse().unwrap_or_default();
    let children = Children::new(Idset::from(0..=cores - 1), Idset::new());
    ResourceSet::uniform(0, &hosts, children).to_value()
}

impl TestHost for TestFlux {
    type StartError = TestFluxError;

    fn start(setup: &HostSetup) -> Result<Self, TestFluxError> {
        let names = setup.plugins.iter().map(|plugin| plugin.name);
        let registry = Registry::builder().plugins(setup.plugins.iter().copied()).sequence(names);
        let registry = registry.build()?;
        let linked = chosen(&registry, &[])?;
        let world = Rc::new(World::default());
        world.now.set(EPOCH);
        let inbox = Arc::new(Inbox::new()?);
        let adapter = Adapter::new(Rc::clone(&world), linked, Arc::clone(&inbox));
        adapter.register()?;
        let mut flux = Self { world, adapter, inbox, next_id: 1 };
        flux.configure(&setup.config)?;
        Ok(flux)
    }

    fn kind(&self) -> HostKind {
        HostKind::Flux
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.world.now.get())
    }

    fn submit(&mut self, job: TestJob) -> Result<JobId, Refused> {
        let (cred, submission) = job.submission()?;
        Urgency::new(submission.urgency)?;
        let id = JobId::new(self.next_id);
        self.next_id += 1;
        let jobspec = submission.jobspec.value().clone();
        let now = self.world.now.get();
        let job = FluxJob::new(cred.userid.0, submission.urgency, now, jobspec.clone());
        self.world.jobs.borrow_mut().insert(id, job);
        if let Err(refused) = self.gates(id, &jobspec) {
            self.call("job.destroy", id, Value::Null);
            self.world.jobs.borrow_mut().remove(&id);
            self.settle();
            return Err(refused);
        }
        self.call("job.new", id, Value::Null);
        self.apply_posted();
        let _ = self.world.post(id, &Event::Validate);
        self.settle();
        Ok(id)
    }

    fn messages(&mut self) -> Vec<String> {
        Vec::new()
    }

    #[track_caller]
    fn priority(&self, id: JobId) -> Option<u32> {
        self.read(id, |job| u32::try_from(job.priority).ok())
    }

    #[track_caller]
    fn jobspec(&self, id: JobId) -> Value {
        self.read(id, |job| job.jobspec.clone())
    }

    #[track_caller]
    fn events(&self, id: JobId) -> Vec<String> {
        self.read(id, |job| job.log.iter().map(|entry| entry.name.to_string()).collect())
    }

    #[track_caller]
    fn annotations(&self, id: JobId) -> Value {
        self.read(id, |job| Value::Object(job.annotations.clone()))
    }

    fn unserved(&mut self) -> Vec<String> {
        self.adapter.take_unserved()
    }

    #[track_caller]
    fn run(&mut self, id: JobId) -> Result<(), RunError> {
        let (state, seen) = self.read(id, |job| (job.state, job.log.len()));
        if state != State::Sched {
            return Err(RunError::WrongState(state));
        }
        self.change(id, |job| job.resources = Some(resources(&job.jobspec)));
        let _ = self.world.post(id, &Event::Alloc(Allocated::default()));
        self.settle();
        self.outcome(id, seen, |job| job.is_started)
    }

    #[track_caller]
    fn end(&mut self, id: JobId, exit_code: u8) -> Result<(), RunError> {
        let seen = self.read(id, |job| job.log.len());
        let WaitStatus(status) = WaitStatus::from_exit_code(exit_code);
        let _ = self.world.post(id, &Event::Finish { status });
        self.settle();
        self.outcome(id, seen, |job| job.state == State::Inactive)
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        self.world.work.processes.borrow_mut().end_with(end);
    }

    fn services(&self) -> TestServices {
        self.world.services.clone()
    }

    fn started_processes(&self) -> Vec<Process> {
        self.world.work.processes.borrow().started().to_vec()
    }
}
