//! The engine as the [`Host`] of one callback: reads that see the callback's own commands, and the
//! checks of its calls.

use std::any::Any;
use std::cell::Cell;

use serde_json::{Map, Value};

use super::Engine;
use super::callback::{Asked, Queued};
use super::record::Exec;
use crate::host::{
    Args, CallError, Command, Detail, Fault, Host, Instance, RemoteHandle, Severity,
};
use crate::job::{Job, JobId, State, Timestamp, Uid};
use crate::jobspec::path;
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::topic::TopicId;

/// What one callback sees of the engine.
pub(super) struct FrameHost<'e> {
    pub(super) engine: &'e Engine,
    /// The plugin that is called now: a loop over handlers uses one host for all.
    pub(super) instance: Cell<&'e Instance>,
    pub(super) current: Option<JobId>,
    pub(super) asked: &'e Asked,
}

impl Host for FrameHost<'_> {
    fn now(&self) -> Timestamp {
        self.engine.now
    }

    fn owner(&self) -> Uid {
        self.engine.owner
    }

    fn instance_resources(&self) -> &ResourceSet {
        &self.engine.nodes.inventory
    }

    fn current(&self) -> Option<JobId> {
        self.current
    }

    fn job(&self, id: JobId) -> Option<&Job> {
        self.engine.seen(id)
    }

    fn freed(&self, id: JobId) -> Option<ResourceSet> {
        self.engine.keepable(self.instance.get().key(), id)
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let written = self.last_own(|command| match command {
            Command::SetData { job, value, .. } if *job == id => Some(value.clone()),
            _ => None,
        });
        written
            .or_else(|| self.engine.jobs.get(&id)?.data.get(&**self.instance.get().name()).cloned())
    }

    fn instance_data(&self) -> Option<Value> {
        let written = self.last_own(|command| match command {
            Command::SetInstanceData { value, .. } => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.engine.instance_data.get(&**self.instance.get().name()).cloned())
    }

    fn queues(&self) -> &Queues {
        self.engine.queues()
    }

    fn call_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        self.call_own(topic, job, payload)
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        self.engine.check(&command)?;
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        let plugin = self.instance.get().key();
        self.asked.commands.borrow_mut().push(Queued { plugin, command });
    }

    fn remote(&self) -> RemoteHandle {
        self.instance.get().remote().clone()
    }
}

impl FrameHost<'_> {
    /// The last of this plugin's own commands of the callback that `look` finds something in.
    fn last_own<R>(&self, look: impl Fn(&Command) -> Option<R>) -> Option<R> {
        let own = self.instance.get().key();
        let commands = self.asked.commands.borrow();
        let mut own = commands.iter().rev().filter(|queued| queued.plugin == own);
        own.find_map(|queued| look(&queued.command))
    }

    /// An author's own topic, on all plugins that handle it.
    fn call_own(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        let subject = match job {
            None => None,
            Some(id) => Some(self.engine.seen(id).ok_or(CallError::UnknownJob(id))?),
        };
        let mut answers = Vec::new();
        for bound in self.engine.plugins.stack.own(topic).iter() {
            let instance = bound.instance();
            if instance.is_faulted() {
                continue;
            }
            let name = || instance.name().to_string();
            let host = FrameHost {
                engine: self.engine,
                instance: Cell::new(instance),
                current: job,
                asked: self.asked,
            };
            let detail = Detail::Own(payload);
            let args = Args { host: &host, topic: TopicId::Own, job: subject, detail };
            let mark = self.asked.commands.borrow().len();
            match bound.call(&args, &self.engine.plugins.ticks).0.map_err(|fault| *fault) {
                Ok(outcome) => answers.extend(outcome.decisions().answer),
                Err(Fault::Busy) => {
                    return Err(CallError::Reentrant { topic, plugin: name() });
                }
                Err(Fault::Failure(failure)) => {
                    drop_updates(&mut self.asked.commands.borrow_mut(), mark);
                    let text = failure.text().to_owned();
                    return Err(CallError::Topic { topic, plugin: name(), text });
                }
                Err(Fault::Panic(text)) => {
                    self.asked.commands.borrow_mut().truncate(mark);
                    let mut panicked = self.asked.panicked.borrow_mut();
                    panicked.get_or_insert_default().push((instance.key(), text.clone()));
                    let text = format!("panicked: {text}");
                    return Err(CallError::Topic { topic, plugin: name(), text });
                }
            }
        }
        Ok(answers)
    }
}

impl Engine {
    /// Whether a command can have an effect now.
    pub(super) fn check(&self, command: &Command) -> Result<(), CallError> {
        match command {
            Command::AddDependency { job, .. } => {
                let rule = "dependencies can be added until the job leaves DEPEND";
                self.in_state(*job, "dependency_add", rule, is_before_depend_ends)
            }
            Command::RemoveDependency { job, description } => {
                let rule = "dependencies hold a job until it leaves DEPEND";
                self.in_state(*job, "dependency_remove", rule, is_before_depend_ends)?;
                self.holds(*job, description)
            }
            Command::StartProlog { job, .. } => {
                let rule = "a prolog can be started until the job ends";
                let early = |state| !matches!(state, State::Cleanup | State::Inactive);
                self.in_state(*job, "prolog_start", rule, early)?;
                match self.jobs.get(job) {
                    Some(record) if record.exec != Exec::Idle => Err(CallError::Started(*job)),
                    _ => Ok(()),
                }
            }
            Command::StartEpilog { job, .. } => {
                let rule = "an epilog can be started in CLEANUP only";
                self.in_state(*job, "epilog_start", rule, |state| state == State::Cleanup)
            }
            Command::Raise { job, exception } => {
                let fatal = exception.severity() == Severity::FATAL;
                let rule = "a fatal exception needs an accepted job that isn't over";
                let possible = |state| state != State::Inactive && !(fatal && state == State::New);
                self.in_state(*job, "raise", rule, possible)
            }
            Command::EndWithEpilog { job, .. } => {
                let rule = "a job has something to clean up once it has resources";
                let has_some = |state| matches!(state, State::Run | State::Cleanup);
                self.in_state(*job, "fail_job_with_epilog", rule, has_some)
            }
            Command::Reprioritize { job, .. } => self.alive(*job, "reprioritize"),
            Command::Subscribe { job } => self.alive(*job, "subscribe"),
            Command::PostEvent { job, .. } => self.alive(*job, "post_event"),
            Command::SetUrgency { job, .. } => {
                let rule = "the urgency decides nothing once a job has its resources";
                let early = |state| matches!(state, State::Depend | State::Priority | State::Sched);
                self.in_state(*job, "urgency", rule, early)
            }
            Command::SetFlag { job, .. } => self.alive(*job, "set_flag"),
            Command::Memo { job, .. } => self.alive(*job, "memo"),
            Command::Signal { job, .. } => self.alive(*job, "signal"),
            Command::Reopen { job, perilog, description } => {
                let orphaned =
                    |record: &super::record::Record| record.is_orphaned(*perilog, description);
                if self.jobs.get(job).is_some_and(orphaned) {
                    return Ok(());
                }
                Err(CallError::NotOpen { job: *job, description: description.clone() })
            }
            Command::UpdateJobspec { job, updates } => self.check_update(*job, updates),
            _ => Ok(()),
        }
    }

    fn alive(&self, job: JobId, call: &'static str) -> Result<(), CallError> {
        if self.jobs.get(&job).is_some_and(|record| record.rejected) {
            return Err(CallError::Over(job));
        }
        self.in_state(job, call, "the job is over", |state| state != State::Inactive)
    }

    fn in_state(
        &self,
        job: JobId,
        call: &'static str,
        rule: &'static str,
        possible: impl Fn(State) -> bool,
    ) -> Result<(), CallError> {
        let state = self.jobs.get(&job).ok_or(CallError::UnknownJob(job))?.job.state;
        if possible(state) { Ok(()) } else { Err(CallError::WrongState { job, state, call, rule }) }
    }

    fn holds(&self, job: JobId, description: &str) -> Result<(), CallError> {
        let held = |record: &super::record::Record| {
            record.job.dependencies().any(|open| open == description)
                || record.queue.iter().any(|entry| {
                    entry.name == "dependency-add"
                        && super::record::field(entry, "description").and_then(Value::as_str)
                            == Some(description)
                })
        };
        if self.jobs.get(&job).is_some_and(held) {
            return Ok(());
        }
        Err(CallError::NotHeld { job, description: description.to_owned() })
    }

    fn check_update(&self, job: JobId, updates: &Map<String, Value>) -> Result<(), CallError> {
        let rule = "a plugin may change a jobspec until the job is allocated";
        let early = |state| !matches!(state, State::Run | State::Cleanup | State::Inactive);
        self.in_state(job, "jobspec_update", rule, early)?;
        let refuse = |reason: String| CallError::Jobspec { job, reason };
        if let Some(path) = updates.keys().find(|path| !path::is_updatable(path)) {
            return Err(refuse(format!(
                "{path:?} doesn't lead into attributes, resources or tasks"
            )));
        }
        let Some(record) = self.jobs.get(&job) else {
            return Ok(());
        };
        let mut trial = record.job.jobspec.clone();
        trial.update_all(updates).map_err(|error| refuse(error.to_string()))
    }
}

/// Half of a change is none: the jobspec updates of a handler that failed are dropped.
pub(super) fn drop_updates(commands: &mut Vec<Queued>, from: usize) {
    let tail = commands.split_off(from.min(commands.len()));
    let is_update = |queued: &Queued| matches!(queued.command, Command::UpdateJobspec { .. });
    commands.extend(tail.into_iter().filter(|queued| !is_update(queued)));
}

fn is_before_depend_ends(state: State) -> bool {
    matches!(state, State::New | State::Depend)
}
