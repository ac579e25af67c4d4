//! The engine as the [`Host`] of one callback: reads that see the callback's own commands, and the
//! checks of its calls.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::Engine;
use super::plugins::Loaded;
use super::record::Exec;
use crate::job::{Job, JobId, State, Timestamp};
use crate::jobspec::path;
use crate::plugin::{CallError, Command, Host, RemoteHandle, Severity};

/// What one callback sees of the engine.
pub(super) struct FrameHost<'e> {
    pub(super) engine: &'e Engine,
    pub(super) plugin: &'e Loaded,
    pub(super) current: Option<JobId>,
    pub(super) commands: RefCell<Vec<Command>>,
}

impl Host for FrameHost<'_> {
    fn now(&self) -> Timestamp {
        self.engine.now
    }

    fn current(&self) -> Option<JobId> {
        self.current
    }

    fn job(&self, id: JobId) -> Option<&Job> {
        self.engine.jobs.get(&id).map(|record| &record.job)
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let own = self.commands.borrow();
        let written = own.iter().rev().find_map(|command| match command {
            Command::SetData { job, value } if *job == id => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| {
            self.engine
                .jobs
                .get(&id)?
                .data
                .get(&*self.plugin.name)
                .cloned()
        })
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        self.check(&command)?;
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        self.commands.borrow_mut().push(command);
    }

    fn remote(&self) -> RemoteHandle {
        self.plugin.remote.clone()
    }
}

impl FrameHost<'_> {
    fn check(&self, command: &Command) -> Result<(), CallError> {
        if let Command::RemoveDependency { job, description } = command {
            self.engine.check(command).or_else(|error| match error {
                // The callback may have added it itself.
                CallError::NotHeld { .. } if self.adds(*job, description) => Ok(()),
                error => Err(error),
            })
        } else {
            self.engine.check(command)
        }
    }

    /// Whether the last word of this callback on a dependency is that it holds the job.
    fn adds(&self, id: JobId, wanted: &str) -> bool {
        self.commands
            .borrow()
            .iter()
            .rev()
            .find_map(|command| match command {
                Command::AddDependency { job, description } => {
                    (*job == id && description == wanted).then_some(true)
                }
                Command::RemoveDependency { job, description } => {
                    (*job == id && description == wanted).then_some(false)
                }
                _ => None,
            })
            == Some(true)
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
            Command::Reprioritize { job, .. } | Command::Subscribe { job } => {
                let rule = "the job is over";
                self.in_state(*job, "a call", rule, |state| state != State::Inactive)
            }
            Command::UpdateJobspec { job, updates } => self.check_update(*job, updates),
            _ => Ok(()),
        }
    }

    fn in_state(
        &self,
        job: JobId,
        call: &'static str,
        rule: &'static str,
        possible: impl Fn(State) -> bool,
    ) -> Result<(), CallError> {
        let state = self
            .jobs
            .get(&job)
            .ok_or(CallError::UnknownJob(job))?
            .job
            .state;
        if possible(state) {
            Ok(())
        } else {
            Err(CallError::WrongState {
                job,
                state,
                call,
                rule,
            })
        }
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
        if self.jobs.get(&job).is_some_and(|record| held(record)) {
            return Ok(());
        }
        Err(CallError::NotHeld {
            job,
            description: description.to_owned(),
        })
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
        trial
            .update_all(updates)
            .map_err(|error| refuse(error.to_string()))
    }
}

fn is_before_depend_ends(state: State) -> bool {
    matches!(state, State::New | State::Depend)
}
