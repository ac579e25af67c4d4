//! The state machine of RFC 21: what each event does to a job.
//!
//! [`Record::apply`] is the only place where an event changes a job, live and at replay alike. So a
//! restarted manager continues with the same jobs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::allocation::ResourceOrigin;
use super::execution::Phase;
use super::record::Record;
use crate::eventlog::{
    Allocated, Context, ContextError, Event, EventEntry, Name, Raised, Submitted,
};
use crate::job::{Flags, JobFlag, State, Timestamp, merge_annotations};
use crate::kept::KnownDependency;
use crate::plugin::Perilog;
use crate::resource::Idset;

/// What an event did.
#[derive(Debug, Clone)]
pub(crate) struct Applied<'e> {
    /// What the event says.
    pub(crate) event: Event<'e>,
    /// The state before, if it has changed.
    pub(crate) left: Option<State>,
    /// The event is a fatal exception that ends the job.
    pub(crate) fatal: bool,
}

/// Why an event cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("first event is {0} not submit")]
    FirstEvent(Name),
    #[error("eventlog v{0} is unsupported")]
    Version(i64),
    #[error("could not apply {name}{}", .reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    Event { name: Name, reason: Option<String> },
}

fn refuse(name: Name, reason: impl ToString) -> ApplyError {
    ApplyError::Event { name, reason: Some(reason.to_string()) }
}

fn unreadable(entry: &EventEntry, error: ContextError) -> ApplyError {
    match error {
        ContextError::Version(version) => ApplyError::Version(version),
        error => refuse(entry.name.clone(), error),
    }
}

impl Record {
    /// Whether an event was posted for a state that the job has left meanwhile. It would change
    /// nothing, so it is not logged.
    pub(crate) fn is_obsolete(&self, name: &Name) -> bool {
        let state = self.job.state();
        match name {
            Name::DependencyAdd | Name::DependencyRemove => {
                !matches!(state, State::New | State::Depend)
            }
            Name::Depend => state != State::Depend,
            Name::Alloc => state != State::Sched,
            Name::Urgency => state >= State::Run,
            Name::Priority => !matches!(state, State::Priority | State::Sched),
            Name::FluxRestart => state != State::Sched,
            _ => false,
        }
    }

    /// Applies one event.
    pub(crate) fn apply<'e>(
        &mut self,
        entry: &'e Arc<EventEntry>,
    ) -> Result<Applied<'e>, ApplyError> {
        let before = self.job.state();
        if before == State::New
            && entry.name != Name::Submit
            && !self.job.kept().logged.has(&Name::Submit)
        {
            return Err(ApplyError::FirstEvent(entry.name.clone()));
        }
        let event = entry.event().map_err(|error| unreadable(entry, error))?;
        let mut fatal = false;
        match &event {
            Event::Submit(submitted) => self.submit(entry.timestamp, submitted)?,
            Event::DependencyAdd { description } => self.add_dependency(description),
            Event::DependencyRemove { description } => self.remove_dependency(description)?,
            Event::Priority { priority } => {
                if matches!(before, State::Priority | State::Sched) {
                    self.job.kept_mut().priority = Some(*priority);
                }
            }
            Event::Urgency { urgency, .. } => self.job.kept_mut().urgency = *urgency,
            Event::JobspecUpdate(updates) => self.jobspec_update(updates)?,
            Event::ResourceUpdate { expiration } => self.resource_update(*expiration)?,
            Event::Alloc(allocated) => self.alloc(allocated),
            Event::PrologStart { description } => {
                self.perilogs.start(Perilog::Prolog, description);
            }
            Event::PrologFinish { description, .. } => {
                self.perilogs.finish(Perilog::Prolog, description);
            }
            // Nothing would ever wait for an epilog that is started before the job has resources.
            Event::EpilogStart { description } => {
                if matches!(before, State::Run | State::Cleanup) {
                    self.perilogs.start(Perilog::Epilog, description);
                }
            }
            Event::EpilogFinish { description, .. } => {
                if matches!(before, State::Run | State::Cleanup) {
                    self.perilogs.finish(Perilog::Epilog, description);
                }
            }
            Event::Start => self.job.kept_mut().times.note_start(entry.timestamp),
            Event::Finish { status } => self.finish(entry, *status),
            Event::Release { ranks, is_final } => self.release(ranks, *is_final),
            Event::Free => self.allocation.free(),
            Event::Clean => {
                self.allocation.clean();
                // Only what is active can be requeued, so its summary doesn't say.
                self.execution.resubmitted = false;
                if self.execution.phase == Phase::Skipped {
                    self.execution.phase = Phase::Idle;
                }
            }
            Event::Exception(raised) => fatal = self.exception(entry, raised)?,
            Event::Memo(memo) => self.memo(memo),
            Event::SetFlags(flags) => flags.iter().for_each(|flag| self.set_flag(*flag)),
            Event::FluxRestart => {
                // Other plugins may decide the priority now.
                if before == State::Sched {
                    self.job.kept_mut().priority = None;
                }
            }
            Event::Requeue { .. } => self.execution.resubmitted = true,
            // These say what the job has already, or only that something has happened.
            Event::Annotations(_)
            | Event::Validate
            | Event::Invalidate
            | Event::Depend
            | Event::DebugAllocRequest
            | Event::DebugStartRequest
            | Event::DebugExecReattachStart
            | Event::DebugExecReattachFinish
            | Event::Other { .. } => {}
        }
        self.job.kept_mut().state = next_state(before, &event, fatal);
        // Annotations are not in the eventlog, so that after a restart nothing can be known about them.
        if entry.name != Name::Annotations {
            self.job.kept_mut().logged.add(&entry.name);
        }
        let left = (self.job.state() != before).then_some(before);
        if left.is_some() {
            let job = self.job.kept_mut();
            job.times.enter(job.state, entry.timestamp);
        }
        Ok(Applied { event, left, fatal })
    }

    fn submit(&mut self, at: Timestamp, submitted: &Submitted) -> Result<(), ApplyError> {
        if self.job.kept().logged.has(&Name::Submit) {
            return Err(ApplyError::Event { name: Name::Submit, reason: None });
        }
        let job = self.job.kept_mut();
        job.t_submit = at;
        job.userid = submitted.userid;
        job.urgency = submitted.urgency;
        job.flags = submitted.flags;
        Ok(())
    }

    fn add_dependency(&mut self, description: &str) {
        let job = self.job.kept_mut();
        // A description works once per job, even if the dependency has been removed since.
        if matches!(job.state, State::New | State::Depend)
            && !job.dependencies.iter().any(|known| *known.description == *description)
        {
            job.dependencies.push(KnownDependency { description: description.into(), open: true });
        }
    }

    fn remove_dependency(&mut self, description: &str) -> Result<(), ApplyError> {
        if !matches!(self.job.state(), State::New | State::Depend) {
            return Ok(());
        }
        let mut open = self.job.kept_mut().dependencies.iter_mut().filter(|known| known.open);
        match open.find(|known| *known.description == *description) {
            Some(known) => known.open = false,
            None => {
                let reason = format!("{description:?} isn't held");
                return Err(refuse(Name::DependencyRemove, reason));
            }
        }
        Ok(())
    }

    fn jobspec_update(&mut self, updates: &Context) -> Result<(), ApplyError> {
        let changed = self.job.kept_mut().jobspec.apply(updates.iter());
        changed.map_err(|error| refuse(Name::JobspecUpdate, error))
    }

    fn resource_update(&mut self, expiration: f64) -> Result<(), ApplyError> {
        let resources = self.job.kept_mut().resources.as_mut();
        let resources =
            resources.ok_or_else(|| refuse(Name::ResourceUpdate, "the job has no R"))?;
        let changed = Arc::make_mut(resources).set_expiration(expiration);
        changed.map_err(|error| refuse(Name::ResourceUpdate, error))?;
        self.allocation.refresh(self.job.kept().resources.as_ref());
        Ok(())
    }

    fn alloc(&mut self, allocated: &Allocated<'_>) {
        let bypass = self.set_flags.alloc_bypass;
        self.allocation.allocate(if bypass {
            ResourceOrigin::Plugin
        } else {
            ResourceOrigin::Pool
        });
        let Some(context) = allocated.annotations else { return };
        // A running manager sets the annotations before it posts the event.
        if self.job.kept().annotations.is_shared_with(context) {
            return;
        }
        // The plugins' annotations in the event are left out: after a restart, one that was removed since would come
        // back.
        if let Value::Object(all) = &context["annotations"] {
            let known = &self.job.kept().annotations;
            let missing = ["sched", "user"].into_iter();
            let missing = missing.filter(|key| all.get(*key) != known.get(*key));
            let missing = missing.filter_map(|key| Some((key.to_owned(), all.get(key)?.clone())));
            let missing: Map<String, Value> = missing.collect();
            if !missing.is_empty() {
                merge_annotations(&mut self.job.kept_mut().annotations, missing);
            }
        }
    }

    fn finish(&mut self, entry: &Arc<EventEntry>, status: i32) {
        self.wait_status = Some(status);
        if self.job.state() == State::Run {
            *self.job.kept_mut().end_event = Some(Arc::clone(entry));
        }
    }

    fn release(&mut self, ranks: &str, is_final: bool) {
        if is_final {
            self.execution.phase = Phase::Released;
        } else if let Ok(ranks) = ranks.parse::<Idset>() {
            self.allocation.release(&ranks, self.job.kept().resources.as_ref());
        }
    }

    fn exception(
        &mut self,
        entry: &Arc<EventEntry>,
        raised: &Raised<'_>,
    ) -> Result<bool, ApplyError> {
        let state = self.job.state();
        if raised.is_fatal() && state == State::New {
            return Err(refuse(Name::Exception, "the job isn't accepted yet"));
        }
        let is_worse = |seen: &Arc<EventEntry>| {
            seen.exception().is_some_and(|seen| raised.severity < seen.severity)
        };
        if self.exception.as_ref().is_none_or(is_worse) {
            *self.exception = Some(Arc::clone(entry));
        }
        if !raised.is_fatal() || matches!(state, State::Cleanup | State::Inactive) {
            return Ok(false);
        }
        self.job.kept_mut().end_event.get_or_insert_with(|| Arc::clone(entry));
        if self.execution.phase == Phase::Idle && self.perilogs.is_open(Perilog::Prolog) {
            self.execution.phase = Phase::Skipped;
        }
        Ok(true)
    }

    fn memo(&mut self, memo: &Context) {
        let mut user = Map::new();
        user.insert("user".to_owned(), memo.clone().into());
        merge_annotations(&mut self.job.kept_mut().annotations, user);
    }

    fn set_flag(&mut self, flag: JobFlag) {
        match flag {
            JobFlag::Debug => self.job.kept_mut().flags |= Flags::DEBUG,
            JobFlag::Immutable => self.set_flags.immutable = true,
            JobFlag::AllocBypass => self.set_flags.alloc_bypass = true,
        }
    }
}

/// The transitions of RFC 21: the states that an event ends, and the one that follows.
fn next_state(state: State, event: &Event<'_>, fatal: bool) -> State {
    use State::{Cleanup, Depend, Inactive, New, Priority, Run, Sched};
    let (from, to): (&[State], State) = match event {
        Event::Validate => (&[New], Depend),
        Event::Depend => (&[Depend], Priority),
        Event::Priority { .. } => (&[Priority], Sched),
        Event::Urgency { .. } | Event::JobspecUpdate(_) | Event::FluxRestart => {
            (&[Sched], Priority)
        }
        Event::Alloc(_) => (&[Sched], Run),
        Event::Finish { .. } => (&[Run], Cleanup),
        Event::Exception(_) if fatal => (&[Depend, Priority, Sched, Run], Cleanup),
        Event::Clean => (&[Cleanup], Inactive),
        Event::Exception(_)
        | Event::Submit(_)
        | Event::Invalidate
        | Event::DependencyAdd { .. }
        | Event::DependencyRemove { .. }
        | Event::ResourceUpdate { .. }
        | Event::PrologStart { .. }
        | Event::PrologFinish { .. }
        | Event::Start
        | Event::EpilogStart { .. }
        | Event::EpilogFinish { .. }
        | Event::Release { .. }
        | Event::Free
        | Event::Memo(_)
        | Event::SetFlags(_)
        | Event::Annotations(_)
        | Event::DebugAllocRequest
        | Event::DebugStartRequest
        | Event::DebugExecReattachStart
        | Event::DebugExecReattachFinish
        | Event::Requeue { .. }
        | Event::Other { .. } => return state,
    };
    if from.contains(&state) { to } else { state }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::{JobId, Timestamp};
    use crate::jobspec::JobspecBuilder;

    fn record() -> Record {
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        Record::stored(JobId::new(1), jobspec)
    }

    /// Applies an event; returns the state that the job has then.
    fn apply(record: &mut Record, name: &'static str, context: Value) -> Result<State, ApplyError> {
        let context = context.as_object().cloned();
        let entry = EventEntry::new(Timestamp::from_secs(1.0), name, context);
        record.apply(&Arc::new(entry))?;
        Ok(record.job.state())
    }

    fn submitted() -> Record {
        let mut record = record();
        let submit = json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1});
        assert_eq!(apply(&mut record, "submit", submit), Ok(State::New));
        record
    }

    /// A job that has gone through these events without a context.
    fn after(events: &[&'static str]) -> Record {
        let mut record = submitted();
        for event in events {
            let context = match *event {
                "priority" => json!({"priority": 16}),
                "finish" => json!({"status": 0}),
                "release" => json!({"ranks": "all", "final": true}),
                _ => Value::Null,
            };
            apply(&mut record, event, context).unwrap();
        }
        record
    }

    #[test]
    fn a_job_goes_through_its_states_in_order() {
        let path = [
            ("validate", State::Depend),
            ("depend", State::Priority),
            ("priority", State::Sched),
            ("alloc", State::Run),
            ("start", State::Run),
            ("finish", State::Cleanup),
            ("release", State::Cleanup),
            ("free", State::Cleanup),
            ("clean", State::Inactive),
        ];
        let mut events = Vec::new();
        for (event, state) in path {
            events.push(event);
            assert_eq!(after(&events).job.state(), state, "after {event}");
        }
    }

    #[test]
    fn the_first_event_is_submit_and_there_is_one() {
        let refused = apply(&mut record(), "validate", Value::Null);
        assert_eq!(refused, Err(ApplyError::FirstEvent(Name::Validate)));
        assert_eq!(refused.unwrap_err().to_string(), "first event is validate not submit");
        let again = json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1});
        assert!(apply(&mut submitted(), "submit", again).is_err());
    }

    #[test]
    fn an_urgency_sends_a_job_back_for_a_priority() {
        let mut job = after(&["validate", "depend", "priority"]);
        assert_eq!(apply(&mut job, "urgency", json!({"urgency": 20})), Ok(State::Priority));
        assert_eq!(job.job.kept().urgency.value(), 20);
    }

    #[test]
    fn a_fatal_exception_ends_a_job_once_it_is_accepted() {
        let fatal = || json!({"type": "cancel", "severity": 0, "note": "", "userid": 5});
        assert!(apply(&mut submitted(), "exception", fatal()).is_err());
        for events in
            [&["validate"][..], &["validate", "depend"], &["validate", "depend", "priority"]]
        {
            assert_eq!(apply(&mut after(events), "exception", fatal()), Ok(State::Cleanup));
        }
        let mild = json!({"type": "test", "severity": 1, "note": "", "userid": 5});
        assert_eq!(apply(&mut after(&["validate"]), "exception", mild), Ok(State::Depend));
    }

    #[test]
    fn a_job_that_ends_in_its_prolog_is_not_executed() {
        let mut job = after(&["validate", "depend", "priority", "alloc"]);
        apply(&mut job, "prolog-start", json!({"description": "p"})).unwrap();
        let fatal = json!({"type": "cancel", "severity": 0, "note": "", "userid": 5});
        apply(&mut job, "exception", fatal).unwrap();
        assert_eq!(job.execution.phase, Phase::Skipped);
    }

    #[test]
    fn an_event_for_a_state_that_was_left_is_obsolete() {
        let pending = &["validate", "depend", "priority"][..];
        let running = &["validate", "depend", "priority", "alloc"][..];
        for (name, in_time, too_late) in [
            (Name::DependencyAdd, &["validate"][..], &["validate", "depend"][..]),
            (Name::Depend, &["validate"], &["validate", "depend"]),
            (Name::Priority, &["validate", "depend"], running),
            (Name::Alloc, pending, running),
            (Name::Urgency, pending, running),
            (Name::FluxRestart, pending, running),
        ] {
            assert!(!after(in_time).is_obsolete(&name), "{name} after {in_time:?}");
            assert!(after(too_late).is_obsolete(&name), "{name} after {too_late:?}");
        }
    }

    #[test]
    fn a_dependency_works_once() {
        let mut job = after(&["validate"]);
        let context = || json!({"description": "after=1"});
        apply(&mut job, "dependency-add", context()).unwrap();
        assert_eq!(job.job.dependencies().count(), 1);
        apply(&mut job, "dependency-remove", context()).unwrap();
        assert_eq!(job.job.dependencies().count(), 0);
        assert!(apply(&mut job, "dependency-remove", context()).is_err());
        apply(&mut job, "dependency-add", context()).unwrap();
        assert_eq!(job.job.dependencies().count(), 0);
    }
}
