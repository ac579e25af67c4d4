//! The jobs of another job manager, as far as hosts inside it need to know them.
//!
//! A host in a real Flux is called about a job from time to time, and receives its events. A [`Mirror`] applies these
//! events as the engine does at a restart. So a plugin sees the same job there as here, its calls undergo the same
//! checks, and what plugins have open is tracked in the same way.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::dispatch::{checks, overlay};
use super::jobs::{Admission, Jobs, Phase, Record, Running};
use crate::eventlog::{Event, EventEntry, Name};
use crate::host::{AbortHandle, Command, JobParts, Lent, PluginKey, WorkKind};
use crate::host::{lent, without_scheduling};
use crate::job::{Job, JobId, State, Urgency};
use crate::jobspec::Jobspec;
use crate::plugin::{CallError, Perilog};
use crate::resource::ResourceSet;

/// The jobs of another job manager.
///
/// ```
/// use jobtap_core::engine::Mirror;
/// use jobtap_core::eventlog::EventEntry;
/// use jobtap_core::host::JobParts;
/// use jobtap_core::job::{JobId, State, Timestamp, Uid};
/// use jobtap_core::jobspec::JobspecBuilder;
///
/// let (mut mirror, id) = (Mirror::default(), JobId::new(1));
/// let jobspec = JobspecBuilder::new(["hostname"]).build()?;
/// mirror.submitted(JobParts::new(id, Uid(1000), jobspec));
/// let entry = EventEntry::new(Timestamp(1.0), "validate", None);
/// mirror.apply(id, entry)?;
/// assert_eq!(mirror.job(id).map(|job| job.state()), Some(State::Depend));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Mirror {
    jobs: Jobs,
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").field("active", &self.active().len()).finish_non_exhaustive()
    }
}

/// An event that can't be applied to a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotApplied(String);

/// What a job manager says about a job at each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobNow {
    /// The state.
    pub state: State,
    /// The urgency.
    pub urgency: Urgency,
    /// The priority, once it is set.
    pub priority: Option<u32>,
}

/// The work of an asynchronous handler that a job no longer waits for. It was aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obsolete {
    /// The plugin.
    pub plugin: PluginKey,
    /// The description of the work, as in the events.
    pub what: String,
    /// The work had a prolog open, which the plugin can no longer finish.
    pub has_prolog: bool,
}

impl Mirror {
    /// Adds a job that is being submitted. It isn't among the [`active`](Self::active) ones until it is
    /// [accepted](Self::accept).
    pub fn submitted(&mut self, parts: JobParts) {
        let id = parts.id;
        let mut record = Record::submitted(id, Jobspec::unvalidated(Value::Null));
        record.job = parts.into_job();
        record.job.kept_mut().logged.add(&Name::Submit);
        self.jobs.insert_active(Box::new(record));
    }

    /// Adds a job that existed before, with its eventlog. Leaves out events that cannot be applied, and returns the
    /// reasons.
    pub fn restored(&mut self, parts: JobParts, log: Vec<EventEntry>) -> Vec<NotApplied> {
        let (id, now) = (
            parts.id,
            JobNow { state: parts.state, urgency: parts.urgency, priority: parts.priority },
        );
        let mut record = Record::stored(id, Jobspec::unvalidated(Value::Null));
        record.job = parts.into_job();
        // The replay of the events leads to the job's state.
        record.job.kept_mut().state = State::New;
        let failed = log.into_iter().filter_map(|entry| apply(&mut record, entry).err()).collect();
        self.jobs.insert_active(Box::new(record));
        self.refresh(id, now);
        failed
    }

    /// Notes that a job has passed the gates of its submission.
    pub fn accept(&mut self, id: JobId) {
        if let Some(record) = self.jobs.get_mut(id) {
            record.admission = Admission::Accepted;
        }
    }

    /// Removes a job, and aborts the work of asynchronous handlers on it.
    pub fn remove(&mut self, id: JobId) {
        if let Some(record) = self.jobs.get_mut(id) {
            super::dispatch::async_work::abort_all(record);
        }
        self.jobs.remove(id);
    }

    /// A job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id).map(|record| &record.job)
    }

    /// The ids of the jobs that were accepted and aren't inactive, in order.
    pub fn active(&self) -> Vec<JobId> {
        let active =
            |record: &Record| record.is_accepted() && record.job.state() != State::Inactive;
        self.jobs.active_where(active)
    }

    /// The ids of all jobs, in order.
    pub fn ids(&self) -> Vec<JobId> {
        let mut ids: Vec<JobId> = self.jobs.records().map(|record| record.job.id()).collect();
        ids.sort_unstable();
        ids
    }

    /// Applies an event.
    ///
    /// # Errors
    /// When the event doesn't fit the job. Nothing has changed then.
    pub fn apply(&mut self, id: JobId, entry: EventEntry) -> Result<(), NotApplied> {
        match self.jobs.get_mut(id) {
            None => Err(NotApplied(format!("there is no job {id}"))),
            Some(record) => apply(record, entry),
        }
    }

    /// Applies what the job manager says about a job now.
    pub fn refresh(&mut self, id: JobId, now: JobNow) {
        if let Some(record) = self.jobs.get_mut(id) {
            let job = record.job.kept_mut();
            (job.state, job.urgency, job.priority) = (now.state, now.urgency, now.priority);
        }
    }

    /// Replaces a job's jobspec, and returns the former one.
    pub fn replace_jobspec(&mut self, id: JobId, jobspec: Jobspec) -> Option<Jobspec> {
        let record = self.jobs.get_mut(id)?;
        Some(std::mem::replace(&mut record.job.kept_mut().jobspec, jobspec))
    }

    /// Replaces a job's jobspec if it was read as a whole, so that a job that waits for a long time takes little
    /// memory.
    pub fn close_jobspec(&mut self, id: JobId, jobspec: impl FnOnce() -> Jobspec) {
        if let Some(record) = self.jobs.get_mut(id)
            && record.job.kept().jobspec.is_open()
        {
            record.job.kept_mut().jobspec = jobspec();
        }
    }

    /// Replaces a job's resources.
    pub fn set_resources(&mut self, id: JobId, resources: Lent<Option<ResourceSet>>) {
        if let Some(record) = self.jobs.get_mut(id) {
            record.job.kept_mut().resources = lent(resources, |r| r.map(without_scheduling));
        }
    }

    /// Whether a job's resources are known.
    pub fn has_resources(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|record| record.job.kept().resources.is_set())
    }

    /// Checks whether a plugin's command can have an effect.
    ///
    /// # Errors
    /// When the engine would refuse the same call.
    pub fn check(&self, plugin: PluginKey, command: &Command) -> Result<(), CallError> {
        checks::check(&self.jobs, command)?;
        match command {
            Command::AddDependency { job, description } => {
                checks::check_first_use(&self.jobs, plugin, *job, description)
            }
            _ => Ok(()),
        }
    }

    /// Makes the job that a command concerns show it to the callback that gave it. `place` is the command's place among
    /// the callback's commands. Returns the job if this is the first command noted on it.
    pub fn note(&self, place: usize, command: &Command) -> Option<JobId> {
        overlay::note(&self.jobs, place, command)
    }

    /// Stops showing the commands of a callback from this place on; with `only_updates`, only their updates of the
    /// jobspec.
    pub fn undo(&self, noted: &[JobId], from: usize, only_updates: bool) {
        overlay::undo(&self.jobs, noted, from, only_updates);
    }

    /// Stops showing a callback its commands on these jobs.
    pub fn forget(&mut self, noted: Vec<JobId>) {
        overlay::clear(&mut self.jobs, noted);
    }

    /// Makes a plugin the owner of a dependency, which it will remove.
    pub fn own_dependency(&mut self, plugin: PluginKey, id: JobId, description: &str) {
        if let Some(record) = self.jobs.get_mut(id) {
            record.dependency_owners.retain(|(known, _)| **known != *description);
            record.dependency_owners.push((description.into(), plugin));
        }
    }

    /// Makes a plugin the owner of a prolog or epilog, which it will finish.
    pub fn own_perilog(&mut self, plugin: PluginKey, id: JobId, kind: Perilog, description: &str) {
        if let Some(record) = self.jobs.get_mut(id) {
            record.perilogs.own(plugin, kind, description);
        }
    }

    /// Ends a plugin's ownership of a prolog or epilog; returns whether the plugin was its owner.
    pub fn disown_perilog(
        &mut self,
        plugin: PluginKey,
        id: JobId,
        kind: Perilog,
        description: &str,
    ) -> bool {
        let record = self.jobs.get_mut(id);
        record.is_some_and(|record| record.perilogs.disown(plugin, kind, description))
    }

    /// Ends a plugin's ownership of all prologs and epilogs of a job, and returns them.
    pub fn disown_all(&mut self, plugin: PluginKey, id: JobId) -> Vec<(Perilog, String)> {
        let Some(record) = self.jobs.get_mut(id) else { return Vec::new() };
        let lost = record.perilogs.disown_all(&[plugin]);
        lost.into_iter().map(|owned| (owned.kind, owned.description.into())).collect()
    }

    /// The open prologs and epilogs of a job that no plugin will finish.
    pub fn orphans(&self, id: JobId) -> Vec<(Perilog, String)> {
        let Some(record) = self.jobs.get(id) else { return Vec::new() };
        record.perilogs.orphans().into_iter().map(|(kind, what)| (kind, what.into())).collect()
    }

    /// Notes that an asynchronous handler is at work on a job. Returns whether its work should begin: not a second
    /// time, and not for a job that no longer exists.
    pub fn begin_work(
        &mut self,
        plugin: PluginKey,
        id: JobId,
        what: String,
        kind: WorkKind,
        run_on: bool,
        abort: AbortHandle,
    ) -> bool {
        let Some(record) = self.jobs.get_mut(id) else { return false };
        let running = &mut record.async_work.running;
        if running.iter().any(|work| work.plugin == plugin && work.what == what) {
            return false;
        }
        running.push(Running { plugin, what, kind, run_on, abort });
        true
    }

    /// Notes that the work has ended by itself.
    pub fn end_work(&mut self, plugin: PluginKey, id: JobId, what: &str) {
        super::dispatch::async_work::end(&mut self.jobs, plugin, id, what);
    }

    /// Aborts the work that a job no longer waits for in its state, and returns it.
    pub fn abort_obsolete(&mut self, id: JobId) -> Vec<Obsolete> {
        let Some(record) = self.jobs.get_mut(id) else { return Vec::new() };
        let state = record.job.state();
        let running = &mut record.async_work.running;
        let obsolete: Vec<Running> =
            running.extract_if(.., |running| running.is_obsolete(state)).collect();
        let ended = |work: Running| {
            work.abort.abort();
            let has_prolog = record.perilogs.disown(work.plugin, Perilog::Prolog, &work.what);
            Obsolete { plugin: work.plugin, what: work.what, has_prolog }
        };
        obsolete.into_iter().map(ended).collect()
    }

    /// Aborts all work of a plugin that was removed or faulted.
    pub fn abort_work_of(&mut self, plugin: PluginKey) {
        for id in self.ids() {
            super::dispatch::async_work::abort_of(&mut self.jobs, id, &[plugin]);
        }
    }
}

fn apply(record: &mut Record, entry: EventEntry) -> Result<(), NotApplied> {
    let entry = Arc::new(entry);
    let applied = record.apply(&entry).map_err(|error| NotApplied(error.to_string()))?;
    if let Event::Start = applied.event {
        record.execution.phase = Phase::Started;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::{Timestamp, Uid};
    use crate::jobspec::JobspecBuilder;

    const ID: JobId = JobId::new(4);
    const PLUGIN: PluginKey = PluginKey(1);

    fn entry(name: &'static str, context: Value) -> EventEntry {
        EventEntry::new(Timestamp(2.0), name, context.as_object().cloned())
    }

    fn submitted() -> Mirror {
        let mut mirror = Mirror::default();
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        mirror.submitted(JobParts::new(ID, Uid(5), jobspec));
        mirror
    }

    #[test]
    fn a_submitted_job_follows_its_events_and_is_active_once_accepted() {
        let mut mirror = submitted();
        assert!(mirror.active().is_empty());
        mirror.accept(ID);
        assert_eq!(mirror.active(), [ID]);
        for (name, context) in [
            ("validate", Value::Null),
            ("dependency-add", json!({"description": "x"})),
            ("memo", json!({"a": 1})),
        ] {
            mirror.apply(ID, entry(name, context)).unwrap();
        }
        let job = mirror.job(ID).unwrap();
        assert_eq!(job.state(), State::Depend);
        assert_eq!(job.dependencies().collect::<Vec<_>>(), ["x"]);
        assert_eq!(job.annotations().get("user"), Some(&json!({"a": 1})));
        assert!(mirror.apply(ID, entry("dependency-remove", json!({"description": "y"}))).is_err());
    }

    #[test]
    fn a_call_is_checked_as_in_the_engine() {
        let mut mirror = submitted();
        mirror.accept(ID);
        mirror.apply(ID, entry("validate", Value::Null)).unwrap();
        let remove = Command::RemoveDependency { job: ID, description: "x".to_owned() };
        assert!(matches!(mirror.check(PLUGIN, &remove), Err(CallError::NoDependency { .. })));
        let add = Command::AddDependency { job: ID, description: "x".to_owned() };
        mirror.check(PLUGIN, &add).unwrap();
        assert_eq!(mirror.note(0, &add), Some(ID));
        mirror.check(PLUGIN, &remove).unwrap();
        mirror.forget(vec![ID]);
        assert!(mirror.check(PLUGIN, &remove).is_err());
        mirror.own_dependency(PLUGIN, ID, "x");
        for name in ["dependency-add", "dependency-remove"] {
            mirror.apply(ID, entry(name, json!({"description": "x"}))).unwrap();
        }
        assert!(matches!(mirror.check(PLUGIN, &add), Err(CallError::UsedDependency { .. })));
    }

    #[test]
    fn a_job_has_no_resources_until_they_are_set() {
        let mut mirror = Mirror::default();
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        mirror.submitted(JobParts::new(ID, Uid(5), jobspec));
        assert!(!mirror.has_resources(ID), "a host asks, and sets them when it has them");
        mirror.set_resources(ID, Lent::Now(Some(ResourceSet::new())));
        assert!(mirror.has_resources(ID) && mirror.job(ID).unwrap().resources().is_some());
    }

    #[test]
    fn a_restored_job_has_what_was_open() {
        let mut mirror = Mirror::default();
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        let parts =
            JobParts { state: State::Run, priority: Some(3), ..JobParts::new(ID, Uid(5), jobspec) };
        let submit = json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1});
        let mut log = vec![entry("submit", submit)];
        log.push(entry("validate", Value::Null));
        log.push(entry("depend", Value::Null));
        log.push(entry("priority", json!({"priority": 3})));
        log.push(entry("alloc", Value::Null));
        log.push(entry("prolog-start", json!({"description": "scratch.make"})));
        assert_eq!(mirror.restored(parts, log), []);
        assert_eq!(mirror.orphans(ID), [(Perilog::Prolog, "scratch.make".to_owned())]);
        assert_eq!(mirror.job(ID).unwrap().t_alloc(), Some(Timestamp(2.0)));
        mirror.own_perilog(PLUGIN, ID, Perilog::Prolog, "scratch.make");
        assert_eq!(mirror.orphans(ID), []);
        let (abort, _) = AbortHandle::new_pair();
        let mut begin = || {
            let what = "scratch.make".to_owned();
            mirror.begin_work(PLUGIN, ID, what, WorkKind::Prolog, false, abort.clone())
        };
        assert!(begin() && !begin());
        assert_eq!(mirror.abort_obsolete(ID), []);
        let cancel = json!({"type": "cancel", "severity": 0, "note": "", "userid": 5});
        mirror.apply(ID, entry("exception", cancel)).unwrap();
        let obsolete = mirror.abort_obsolete(ID);
        assert!(obsolete.first().is_some_and(|work| work.has_prolog), "{obsolete:?}");
        assert!(abort.is_aborted());
    }
}
