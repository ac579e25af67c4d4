//! The state machine of RFC 21: what each event does to a job.
//!
//! [`Record::apply`] is the only place where an event changes a job, live and at replay alike. So a
//! restarted manager continues with the same jobs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::allocation::ResourceOrigin;
use super::execution::Phase;
use super::record::Record;
use crate::engine::events::{ANNOTATIONS, field};
use crate::eventlog::EventEntry;
use crate::host::Perilog;
use crate::job::{Flags, KnownDependency, State, Uid, Urgency, merge_annotations};
use crate::resource::Idset;

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The state before, if it has changed.
    pub(crate) left: Option<State>,
    /// The event is a fatal exception that ends the job.
    pub(crate) fatal: bool,
}

/// Why an event cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("first event is {0} not submit")]
    FirstEvent(String),
    #[error("eventlog v{0} is unsupported")]
    Version(i64),
    #[error("could not apply {name}{}", .reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    Event { name: String, reason: Option<String> },
}

fn refuse(entry: &EventEntry, reason: impl Into<String>) -> ApplyError {
    ApplyError::Event { name: entry.name.to_string(), reason: Some(reason.into()) }
}

impl Record {
    /// Whether an event was posted for a state that the job has left meanwhile. It would change
    /// nothing, so it is not logged.
    pub(crate) fn is_obsolete(&self, name: &str) -> bool {
        let state = self.job.state;
        match name {
            "dependency-add" | "dependency-remove" => !matches!(state, State::New | State::Depend),
            "depend" => state != State::Depend,
            "alloc" => state != State::Sched,
            "urgency" => state >= State::Run,
            "priority" => !matches!(state, State::Priority | State::Sched),
            "flux-restart" => state != State::Sched,
            _ => false,
        }
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, entry: &Arc<EventEntry>) -> Result<Applied, ApplyError> {
        let before = self.job.state;
        if before == State::New && !self.job.logged.has("submit") && entry.name != "submit" {
            return Err(ApplyError::FirstEvent(entry.name.to_string()));
        }
        let mut fatal = false;
        match &*entry.name {
            "submit" => self.submit(entry)?,
            "dependency-add" | "dependency-remove" => self.dependency(entry)?,
            "priority" => self.priority(entry)?,
            "urgency" => self.urgency(entry)?,
            "jobspec-update" => self.jobspec_update(entry)?,
            "resource-update" => self.resource_update(entry)?,
            "alloc" => self.alloc(entry),
            "prolog-start" => self.perilogs.start(Perilog::Prolog, description(entry)?),
            "prolog-finish" => self.perilogs.finish(Perilog::Prolog, description(entry)?),
            // An epilog that is started before the job has resources would never be waited for.
            "epilog-start" if matches!(before, State::Run | State::Cleanup) => {
                self.perilogs.start(Perilog::Epilog, description(entry)?);
            }
            "epilog-finish" if matches!(before, State::Run | State::Cleanup) => {
                self.perilogs.finish(Perilog::Epilog, description(entry)?);
            }
            "start" => self.job.times.note_start(entry.timestamp),
            "finish" => self.finish(entry)?,
            "release" => self.release(entry),
            "free" => self.allocation.free(),
            "clean" => {
                self.allocation.clean();
                if self.execution.phase == Phase::Skipped {
                    self.execution.phase = Phase::Idle;
                }
            }
            "exception" => fatal = self.exception(entry)?,
            "memo" => self.memo(entry),
            "set-flags" => self.set_flags(entry)?,
            // The plugins that gave the priority may be others now.
            "flux-restart" if before == State::Sched => self.job.priority = None,
            _ => {}
        }
        self.job.state = next_state(before, &entry.name, fatal);
        // Annotations are not in the eventlog, so that after a restart nothing can be known of them.
        if entry.name != ANNOTATIONS {
            self.job.logged.add(&entry.name);
        }
        if self.job.state == before {
            return Ok(Applied { left: None, fatal });
        }
        self.job.times.enter(self.job.state, entry.timestamp);
        Ok(Applied { left: Some(before), fatal })
    }

    fn submit(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if self.job.logged.has("submit") {
            return Err(ApplyError::Event { name: "submit".to_owned(), reason: None });
        }
        match field(entry, "version").and_then(Value::as_i64) {
            None | Some(1) => {}
            Some(version) => return Err(ApplyError::Version(version)),
        }
        self.job.t_submit = entry.timestamp;
        self.job.userid = Uid(u32::try_from(number(entry, "userid")?)
            .map_err(|_| refuse(entry, "userid is out of range"))?);
        self.job.urgency = Urgency::new(number(entry, "urgency")?)
            .map_err(|error| refuse(entry, error.to_string()))?;
        let flags = u32::try_from(number(entry, "flags")?).unwrap_or(u32::MAX);
        self.job.flags =
            Flags::from_bits(flags).map_err(|error| refuse(entry, error.to_string()))?;
        Ok(())
    }

    fn dependency(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if !matches!(self.job.state, State::New | State::Depend) {
            return Ok(());
        }
        let description = description(entry)?;
        let known =
            self.job.dependencies.iter_mut().find(|known| *known.description == *description);
        match (known, &*entry.name == "dependency-add") {
            // A description works once per job, also when it has been removed since.
            (Some(_), true) => {}
            (None, true) => {
                let description = description.into();
                self.job.dependencies.push(KnownDependency { description, open: true });
            }
            (Some(known), false) if known.open => known.open = false,
            (_, false) => return Err(refuse(entry, format!("{description:?} isn't held"))),
        }
        Ok(())
    }

    fn priority(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if matches!(self.job.state, State::Priority | State::Sched) {
            let value = number(entry, "priority")?;
            let value = u32::try_from(value).map_err(|_| refuse(entry, "out of range"))?;
            self.job.priority = Some(value);
        }
        Ok(())
    }

    fn urgency(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        self.job.urgency = Urgency::new(number(entry, "urgency")?)
            .map_err(|error| refuse(entry, error.to_string()))?;
        Ok(())
    }

    fn jobspec_update(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let updates = entry.context.as_ref().ok_or_else(|| refuse(entry, "no updates"))?;
        self.job.jobspec.apply(updates.iter()).map_err(|error| refuse(entry, error.to_string()))
    }

    fn resource_update(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let expiration = field(entry, "expiration").and_then(Value::as_f64);
        let expiration =
            expiration.ok_or_else(|| refuse(entry, "no number under \"expiration\""))?;
        let resources =
            self.job.resources.as_mut().ok_or_else(|| refuse(entry, "the job has no R"))?;
        let changed = Arc::make_mut(resources).set_expiration(expiration);
        changed.map_err(|error| refuse(entry, error.to_string()))?;
        self.allocation.refresh(self.job.resources.as_ref());
        Ok(())
    }

    fn alloc(&mut self, entry: &EventEntry) {
        let bypass = self.set_flags.alloc_bypass;
        self.allocation.allocate(if bypass {
            ResourceOrigin::Plugin
        } else {
            ResourceOrigin::Pool
        });
        // A running manager has them before it posts the event.
        if entry.context.as_ref().is_some_and(|context| self.job.annotations.are_of(context)) {
            return;
        }
        // Those of plugins are as they were then: after a restart, one that was removed since would come back.
        if let Some(Value::Object(all)) = field(entry, "annotations") {
            let known = &self.job.annotations;
            let missing = ["sched", "user"].into_iter();
            let missing = missing.filter(|key| all.get(*key) != known.get(*key));
            let missing = missing.filter_map(|key| Some((key.to_owned(), all.get(key)?.clone())));
            let missing: Map<String, Value> = missing.collect();
            if !missing.is_empty() {
                merge_annotations(&mut self.job.annotations, missing);
            }
        }
    }

    fn finish(&mut self, entry: &Arc<EventEntry>) -> Result<(), ApplyError> {
        let status = number(entry, "status")?;
        let status = i32::try_from(status).map_err(|_| refuse(entry, "status is out of range"))?;
        self.wait_status = Some(status);
        if self.job.state == State::Run {
            *self.job.end_event = Some(Arc::clone(entry));
        }
        Ok(())
    }

    fn release(&mut self, entry: &EventEntry) {
        if field(entry, "final").and_then(Value::as_bool) == Some(true) {
            self.execution.phase = Phase::Released;
        } else if let Some(Ok(ranks)) =
            field(entry, "ranks").and_then(Value::as_str).map(str::parse::<Idset>)
        {
            self.allocation.release(&ranks, self.job.resources.as_ref());
        }
    }

    fn exception(&mut self, entry: &Arc<EventEntry>) -> Result<bool, ApplyError> {
        let severity = number(entry, "severity")?;
        let state = self.job.state;
        if severity == 0 && state == State::New {
            return Err(refuse(entry, "the job isn't accepted yet"));
        }
        let worse = |seen: &Arc<EventEntry>| number(seen, "severity").is_ok_and(|s| severity < s);
        if self.exception.as_ref().is_none_or(worse) {
            *self.exception = Some(Arc::clone(entry));
        }
        if severity != 0 || matches!(state, State::Cleanup | State::Inactive) {
            return Ok(false);
        }
        self.job.end_event.get_or_insert_with(|| Arc::clone(entry));
        if self.execution.phase == Phase::Idle && self.perilogs.is_open(Perilog::Prolog) {
            self.execution.phase = Phase::Skipped;
        }
        Ok(true)
    }

    fn memo(&mut self, entry: &EventEntry) {
        if let Some(memo) = &entry.context {
            let mut user = Map::new();
            user.insert("user".to_owned(), memo.clone().into());
            merge_annotations(&mut self.job.annotations, user);
        }
    }

    fn set_flags(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let flags = field(entry, "flags").and_then(Value::as_array);
        for flag in flags.into_iter().flatten().map(|flag| flag.as_str().unwrap_or_default()) {
            match flag {
                "debug" => self.job.flags |= Flags::DEBUG,
                "immutable" => self.set_flags.immutable = true,
                "alloc-bypass" => self.set_flags.alloc_bypass = true,
                other => return Err(refuse(entry, format!("unknown flag {other:?}"))),
            }
        }
        Ok(())
    }
}

/// The transitions of RFC 21.
fn next_state(state: State, event: &str, fatal: bool) -> State {
    match (state, event) {
        (State::New, "validate") => State::Depend,
        (State::Depend, "depend") => State::Priority,
        (State::Priority, "priority") => State::Sched,
        (State::Sched, "alloc") => State::Run,
        (State::Sched, "urgency" | "jobspec-update" | "flux-restart") => State::Priority,
        (State::Run, "finish") => State::Cleanup,
        (State::Cleanup, "clean") => State::Inactive,
        (State::Depend | State::Priority | State::Sched | State::Run, "exception") if fatal => {
            State::Cleanup
        }
        (state, _) => state,
    }
}

fn number(entry: &EventEntry, key: &str) -> Result<i64, ApplyError> {
    field(entry, key)
        .and_then(Value::as_i64)
        .ok_or_else(|| refuse(entry, format!("no number under {key:?}")))
}

fn description(entry: &EventEntry) -> Result<&str, ApplyError> {
    field(entry, "description")
        .and_then(Value::as_str)
        .ok_or_else(|| refuse(entry, "no text under \"description\""))
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

    /// Applies an event, and gives the state that the job is in then.
    fn apply(record: &mut Record, name: &'static str, context: Value) -> Result<State, String> {
        let context = context.as_object().cloned();
        let entry = EventEntry::new(Timestamp::from_secs(1.0), name, context);
        record.apply(&Arc::new(entry)).map_err(|error| error.to_string())?;
        Ok(record.job.state)
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
            assert_eq!(after(&events).job.state, state, "after {event}");
        }
    }

    #[test]
    fn the_first_event_is_submit_and_there_is_one() {
        let refused = apply(&mut record(), "validate", Value::Null);
        assert_eq!(refused, Err("first event is validate not submit".to_owned()));
        let again = json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1});
        assert!(apply(&mut submitted(), "submit", again).is_err());
    }

    #[test]
    fn an_urgency_sends_a_job_back_for_a_priority() {
        let mut job = after(&["validate", "depend", "priority"]);
        assert_eq!(apply(&mut job, "urgency", json!({"urgency": 20})), Ok(State::Priority));
        assert_eq!(job.job.urgency.value(), 20);
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
            ("dependency-add", &["validate"][..], &["validate", "depend"][..]),
            ("depend", &["validate"], &["validate", "depend"]),
            ("priority", &["validate", "depend"], running),
            ("alloc", pending, running),
            ("urgency", pending, running),
            ("flux-restart", pending, running),
        ] {
            assert!(!after(in_time).is_obsolete(name), "{name} after {in_time:?}");
            assert!(after(too_late).is_obsolete(name), "{name} after {too_late:?}");
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
