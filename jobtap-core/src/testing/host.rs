//! The manager under test as one of the [hosts](TestHost) of the test kit.

use std::any::Any;

use serde_json::Value;

use super::hosts::{HostSetup, TestHost};
use super::job::TestJob;
use super::manager::TestManager;
use super::refused::{ManagerStartError, Refused, RunError};
use super::services::TestServices;
use crate::eventlog::{EventEntry, Name};
use crate::host::{
    Args, Failure, HandlerEntry, HandlerFn, HostKind, IntroductionOrder, Load, Outcome,
    PluginDescriptor, Role,
};
use crate::job::{JobId, State, Timestamp};
use crate::plugin::{Priority, Process, ProcessEnd};
use crate::topic::TopicId;

/// Sets the priority of a job to its urgency if no other plugin sets one. Flux does this itself, and our
/// manager with a builtin plugin.
static URGENCY: PluginDescriptor = PluginDescriptor {
    name: ".urgency-of-test-kit",
    crate_name: env!("CARGO_PKG_NAME"),
    crate_version: env!("CARGO_PKG_VERSION"),
    authors: "",
    license: "",
    sdk: env!("CARGO_PKG_VERSION"),
    load: Load::Auto,
    before: &[],
    after: &[],
    load_order: IntroductionOrder::ById,
    schema: || None,
    reads: |_| false,
    new: |_| Ok(Box::new(())),
    handlers: &[
        handler(TopicId::JobStatePriority, "job.state.priority"),
        handler(TopicId::JobPriorityGet, "job.priority.get"),
    ],
};

const fn handler(id: TopicId, topic: &'static str) -> HandlerEntry {
    const CALL: HandlerFn = priority;
    let (key, method, role, policy) = ("", "priority", Role::Owner, None);
    HandlerEntry { id, topic, key, method, role, returns_value: true, policy, call: CALL }
}

fn priority(_: &mut dyn Any, args: &Args<'_>) -> Result<Outcome, Box<Failure>> {
    let urgency = args.job.map_or(0, |job| job.urgency().value());
    Ok(Outcome::priority(Priority::Set(urgency.into())))
}

impl TestManager {
    /// The note of the first fatal exception of a job after its first `seen` events.
    fn failure(&self, id: JobId, seen: usize) -> Option<String> {
        let log = self.eventlog(id);
        let mut raised = log.iter().skip(seen).filter_map(EventEntry::fatal_exception);
        raised.next().map(|raised| raised.note.to_owned())
    }
}

impl TestHost for TestManager {
    type StartError = ManagerStartError;

    fn start(setup: &HostSetup) -> Result<Self, ManagerStartError> {
        let mut builder = TestManager::new().descriptor(&URGENCY).cores(4096);
        builder.config = setup.config.clone();
        for plugin in &setup.plugins {
            builder.loaded.push(plugin.name);
            builder = builder.descriptor(plugin);
        }
        let mut manager = builder.try_start()?;
        manager.hold_scheduling()?;
        Ok(manager)
    }

    fn kind(&self) -> HostKind {
        HostKind::Jobtap
    }

    fn now(&self) -> Timestamp {
        TestManager::now(self)
    }

    fn submit(&mut self, job: TestJob) -> Result<JobId, Refused> {
        TestManager::submit(self, job)
    }

    fn messages(&mut self) -> Vec<String> {
        TestManager::messages(self)
    }

    fn priority(&self, id: JobId) -> Option<u32> {
        self.job(id).priority()
    }

    fn jobspec(&self, id: JobId) -> Value {
        self.job(id).jobspec().value().clone()
    }

    fn events(&self, id: JobId) -> Vec<String> {
        TestManager::events(self, id)
    }

    fn annotations(&self, id: JobId) -> Value {
        TestManager::annotations(self, id)
    }

    fn unserved(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn run(&mut self, id: JobId) -> Result<(), RunError> {
        let state = self.job(id).state();
        if state != State::Sched {
            return Err(RunError::WrongState(state));
        }
        let seen = self.eventlog(id).len();
        self.allocate(id);
        match self.failure(id, seen) {
            Some(note) => Err(RunError::Failed { note }),
            None if self.eventlog(id).iter().any(|entry| entry.name == Name::Start) => Ok(()),
            None => Err(RunError::Waits(self.why(id))),
        }
    }

    fn end(&mut self, id: JobId, exit_code: u8) -> Result<(), RunError> {
        let seen = self.eventlog(id).len();
        self.finish(id, exit_code);
        match self.failure(id, seen) {
            Some(note) => Err(RunError::Failed { note }),
            None if self.job(id).state() == State::Inactive => Ok(()),
            None => Err(RunError::Waits(self.why(id))),
        }
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        self.processes.end = Some(end);
    }

    fn services(&self) -> TestServices {
        self.services.clone()
    }

    fn started_processes(&self) -> Vec<Process> {
        TestManager::started_processes(self).to_vec()
    }
}
