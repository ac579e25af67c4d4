//! Whether a command can have an effect in the job's present state.
//!
//! Checked when a handler gives the command, so that the handler gets an error, and once more when the command is
//! carried out, since other handlers' commands come before it.

use serde_json::{Map, Value};

use crate::eventlog::Event;
use crate::host::{Command, PluginKey};
use crate::job::{JobId, State};
use crate::jobs::{Admission, Jobs, Phase};
use crate::jobspec::path;
use crate::plugin::{CallError, Severity, UpdateFault};

/// Checks a command. A command that concerns no job is always possible.
pub(crate) fn check(jobs: &Jobs, command: &Command) -> Result<(), CallError> {
    let in_state = |job: &JobId, call, rule, possible: fn(State) -> bool| {
        check_state(jobs, *job, call, rule, possible)
    };
    match command {
        Command::AddDependency { job, .. } => {
            let rule = "dependencies can be added until the job leaves DEPEND";
            in_state(job, "dependency_add", rule, is_before_depend_ends)
        }
        Command::RemoveDependency { job, description } => {
            check_can_remove_dependency(jobs, *job)?;
            check_dependency(jobs, *job, description)
        }
        Command::StartProlog { job, .. } => {
            let rule = "a prolog can be started until the job ends";
            in_state(job, "prolog_start", rule, |state| state < State::Cleanup)?;
            match jobs.get(*job) {
                Some(record) if record.execution.phase != Phase::Idle => {
                    Err(CallError::Started(*job))
                }
                _ => Ok(()),
            }
        }
        Command::StartEpilog { job, .. } => {
            let rule = "an epilog can be started in CLEANUP only";
            in_state(job, "epilog_start", rule, |state| state == State::Cleanup)
        }
        Command::Raise { job, exception } => {
            let rule = "a fatal exception needs an accepted job that isn't inactive";
            match exception.severity() == Severity::FATAL {
                true => in_state(job, "raise", rule, |s| s != State::Inactive && s != State::New),
                false => in_state(job, "raise", rule, |state| state != State::Inactive),
            }
        }
        Command::EndWithEpilog { job, .. } => {
            let rule = "a job has something to clean up once it has resources";
            let has_resources = |state| matches!(state, State::Run | State::Cleanup);
            in_state(job, "fail_job_with_epilog", rule, has_resources)
        }
        Command::SetExpiration { job, .. } => {
            let rule = "only a job that runs has an end that can be moved";
            in_state(job, "set_expiration", rule, |state| state == State::Run)
        }
        Command::SetUrgency { job, .. } => {
            let rule = "the urgency decides nothing once a job has its resources";
            let is_pending =
                |state| matches!(state, State::Depend | State::Priority | State::Sched);
            in_state(job, "urgency", rule, is_pending)
        }
        Command::TakeOver { job, perilog, description } => match jobs.get(*job) {
            Some(record) if record.perilogs.is_orphan(*perilog, description) => Ok(()),
            _ => Err(CallError::NotOpen { job: *job, description: description.clone() }),
        },
        Command::UpdateJobspec { job, updates } => check_update(jobs, *job, updates),
        Command::Reprioritize { job, .. } => check_active(jobs, *job, "reprioritize"),
        Command::Subscribe { job } => check_active(jobs, *job, "subscribe"),
        Command::PostEvent { job, .. } => check_active(jobs, *job, "post_event"),
        Command::SetFlag { job, .. } => check_active(jobs, *job, "set_flag"),
        Command::PutGuest { job, key, .. } => {
            check_active(jobs, *job, "guest_put")?;
            check_guest_key(*job, key)
        }
        Command::Annotate { job, .. } => check_active(jobs, *job, "annotate"),
        Command::Memo { job, .. } => check_active(jobs, *job, "memo"),
        Command::Signal { job, .. } => check_active(jobs, *job, "signal"),
        _ => Ok(()),
    }
}

/// Checks that the job's state allows the removal of a dependency; the caller checks that the dependency is open.
pub(crate) fn check_can_remove_dependency(jobs: &Jobs, job: JobId) -> Result<(), CallError> {
    let rule = "dependencies hold a job until it leaves DEPEND";
    check_state(jobs, job, "dependency_remove", rule, is_before_depend_ends)
}

/// The longest key below `guest`, in bytes.
const MAX_GUEST_KEY: usize = 256;

/// Checks that a key leads to a part of the guest's directory that is free for plugins: the manager, the
/// executor and the shell own the others (RFC 16).
fn check_guest_key(job: JobId, key: &str) -> Result<(), CallError> {
    let plain = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !name.is_empty() && name.chars().all(is_plain)
    };
    let mut names = key.split('.');
    let is_free = match names.next() {
        Some("application") => true,
        Some("tools") => names.next().is_some_and(plain),
        _ => false,
    };
    match is_free && names.clone().count() > 0 && names.all(plain) && key.len() <= MAX_GUEST_KEY {
        true => Ok(()),
        false => Err(CallError::GuestKey { job, key: key.to_owned() }),
    }
}

/// Refuses to add a dependency that this plugin has removed since it was loaded: a description works once
/// per job, so the job would not wait for it. After a restart a plugin may add again what it had removed
/// before, since it need not know that.
pub(crate) fn check_first_use(
    jobs: &Jobs,
    plugin: PluginKey,
    id: JobId,
    description: &str,
) -> Result<(), CallError> {
    let Some(record) = jobs.get(id) else { return Ok(()) };
    let is_own =
        |(known, owner): &(Box<str>, PluginKey)| **known == *description && *owner == plugin;
    let is_closed = || {
        let mut known = record.job.kept().dependencies.iter();
        known.any(|known| *known.description == *description && !known.open)
    };
    let is_removed = match record.job.overlay().dependency(description) {
        Some(open) => !open,
        None => record.dependency_owners.iter().any(is_own) && is_closed(),
    };
    match is_removed {
        true => Err(CallError::UsedDependency { job: id, description: description.to_owned() }),
        false => Ok(()),
    }
}

fn check_active(jobs: &Jobs, job: JobId, call: &'static str) -> Result<(), CallError> {
    let rejected = |admission: &Admission| matches!(admission, Admission::Rejected);
    if jobs.get(job).is_some_and(|record| rejected(&record.admission)) {
        return Err(CallError::NotActive(job));
    }
    check_state(jobs, job, call, "the job is inactive", |state| state != State::Inactive)
}

fn check_state(
    jobs: &Jobs,
    job: JobId,
    call: &'static str,
    rule: &'static str,
    possible: impl Fn(State) -> bool,
) -> Result<(), CallError> {
    let state = jobs.state(job).ok_or(CallError::UnknownJob(job))?;
    if possible(state) { Ok(()) } else { Err(CallError::WrongState { job, state, call, rule }) }
}

/// Checks that a dependency is open, or that its addition is posted.
fn check_dependency(jobs: &Jobs, job: JobId, description: &str) -> Result<(), CallError> {
    let known = jobs.get(job).is_some_and(|record| {
        let addition = Event::DependencyAdd { description };
        let mut posted = record.pending_events.iter();
        // Finds also a dependency that the same callback has added.
        record.job.dependencies().any(|open| open == description)
            || posted.any(|entry| entry.event().as_ref() == Ok(&addition))
    });
    match known {
        true => Ok(()),
        false => Err(CallError::NoDependency { job, description: description.to_owned() }),
    }
}

fn check_update(jobs: &Jobs, job: JobId, updates: &Map<String, Value>) -> Result<(), CallError> {
    let rule = "a plugin may change a jobspec until the job is allocated";
    check_state(jobs, job, "jobspec_update", rule, |state| state < State::Run)?;
    let refuse = |reason| CallError::Jobspec { job, reason };
    if let Some(path) = updates.keys().find(|path| !path::is_updatable(path)) {
        return Err(refuse(UpdateFault::Path(path.clone())));
    }
    let Some(record) = jobs.get(job) else {
        return Ok(());
    };
    // With the updates that the same callback has asked for before: they are applied first.
    let mut trial = record.job.jobspec().clone();
    trial.update_all(updates).map_err(|error| refuse(error.into()))
}

fn is_before_depend_ends(state: State) -> bool {
    matches!(state, State::New | State::Depend)
}
