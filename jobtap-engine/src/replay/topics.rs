//! The topics to which a recorded event leads: calls the plugins at these topics as a manager does.

use std::rc::Rc;
use std::sync::Arc;

use super::api::ReplayComparison;
use super::call::Call;
use super::driver::Driver;
use super::ledger::Origin;
use crate::eventlog::{Event, EventEntry, Name, Submitted};
use crate::host::{Detail, HandlerEntry, Handlers, LoadedPlugin, PluginKey};
use crate::job::{JobId, State};
use crate::jobs::{Admission, Phase, Record};
use crate::jobspec::Jobspec;
use crate::life_cycle::state_topic;
use crate::plugin::Priority;
use crate::topic::{OnFailure, TopicId};
use crate::transcript::Kind;

impl Driver {
    /// Applies the next event of a log.
    pub(super) fn step(&mut self, index: usize) {
        let Some(log) = self.logs.get_mut(index) else { return };
        let Some(entry) = log.upcoming().first().map(Arc::clone) else { return };
        let id = log.id;
        self.report.events += 1;
        match (&entry.name, log.jobspec.take()) {
            (Name::Submit, Some(jobspec)) => self.submit(index, id, jobspec, &entry),
            _ => self.apply(index, id, &entry),
        }
    }

    /// Takes a job through the gates of its submission.
    fn submit(&mut self, index: usize, id: JobId, jobspec: Jobspec, entry: &Arc<EventEntry>) {
        self.core.jobs.insert_active(Box::new(Record::submitted(id, jobspec)));
        self.core.jobs.newest_id = self.core.jobs.newest_id.max(Some(id));
        self.apply(index, id, entry);
        self.gate(TopicId::JobCreate, id, None, Detail::None);
        self.gate(TopicId::JobValidate, id, None, Detail::None);
        // The next gates see what these have changed.
        while self.next_of(index).is_some_and(|next| next.name == Name::JobspecUpdate) {
            self.step(index);
        }
        let dependencies = self.core.jobs.job(id).map(|job| job.kept().jobspec.dependencies());
        for dependency in dependencies.and_then(Result::ok).unwrap_or_default() {
            let detail = Detail::Dependency(&dependency);
            self.gate(TopicId::JobDependency, id, Some(&dependency.scheme), detail);
        }
        self.gate(TopicId::JobNew, id, None, Detail::None);
        // An eventlog without a version has no `validate`: its job was accepted before it was submitted.
        if let Ok(Event::Submit(Submitted { is_versioned: false, .. })) = entry.event()
            && let Some(record) = self.core.jobs.get_mut(id)
        {
            record.admission = Admission::Accepted;
            record.job.kept_mut().state = State::Depend;
            self.core.jobs.count_new(id);
        }
    }

    fn next_of(&self, index: usize) -> Option<&Arc<EventEntry>> {
        self.logs.get(index)?.upcoming().first()
    }

    /// Applies an event, and calls the plugins at what follows from it.
    fn apply(&mut self, index: usize, id: JobId, entry: &Arc<EventEntry>) {
        match &entry.name {
            Name::Validate => {
                if let Some(record) = self.core.jobs.get_mut(id) {
                    record.admission = Admission::Accepted;
                }
                self.core.jobs.count_new(id);
            }
            Name::Alloc => {
                let resources = self.logs.get_mut(index).and_then(|log| log.resources.take());
                if let (Some(record), Some(resources)) = (self.core.jobs.get_mut(id), resources) {
                    record.job.kept_mut().set_resources(resources);
                }
            }
            Name::Priority if self.core.jobs.state(id) == Some(State::Sched) => {
                let call = Call {
                    topic: TopicId::JobPriorityGet,
                    member: None,
                    job: id,
                    detail: Detail::None,
                };
                self.prioritize(&call);
            }
            _ => {}
        }
        if let Some(log) = self.logs.get_mut(index) {
            log.next += 1;
        }
        let Some(record) = self.core.jobs.get_mut(id) else {
            let text = format!("{id}: {}: the job was not submitted", entry.name);
            return self.report.leave_out(text);
        };
        let applied = match record.apply(entry) {
            Ok(applied) => applied,
            Err(error) => return self.report.leave_out(format!("{id}: {error}")),
        };
        if let Event::Start = applied.event {
            record.execution.phase = Phase::Started;
        }
        let state = record.job.state();
        let ended = applied.fatal || state == State::Inactive;
        let at_end =
            if ended { std::mem::take(&mut record.async_work.at_end) } else { Default::default() };
        let subscribers = record.subscribers.clone();
        let updates = match applied.event {
            Event::JobspecUpdate(updates) => Some(updates),
            _ => None,
        };
        self.core.jobs.count_event(id, applied.left, updates.is_some());
        at_end.into_iter().for_each(|(plugin, work)| self.resume(plugin, work));
        if !subscribers.is_empty() {
            let detail = Detail::Event(entry);
            let includes = |plugin| subscribers.contains(&plugin);
            self.tell_some(TopicId::JobEvent, id, Some(&entry.name), detail, includes);
        }
        if let Some(updates) = updates {
            self.tell(TopicId::JobUpdate, id, Detail::Updates(updates));
        }
        if let Some((left, topic)) = applied.left.zip(state_topic(state)) {
            self.enter(topic, id, Detail::State { prev: Some(left), entry: Some(entry) });
        }
        if state == State::Inactive && self.core.jobs.inactive.add(id, entry.timestamp) {
            self.tell(TopicId::JobInactiveAdd, id, Detail::None);
            self.tell(TopicId::JobDestroy, id, Detail::None);
            if let Some(record) = self.core.jobs.get_mut(id) {
                record.drop_active_parts();
            }
        }
    }

    fn enter(&mut self, topic: TopicId, job: JobId, detail: Detail<'_>) {
        match topic {
            TopicId::JobStatePriority => {
                self.prioritize(&Call { topic, member: None, job, detail });
            }
            _ => self.tell(topic, job, detail),
        }
    }

    /// Calls the plugins at a topic that reports something that has happened.
    fn tell(&mut self, topic: TopicId, job: JobId, detail: Detail<'_>) {
        self.tell_some(topic, job, None, detail, |_| true);
    }

    fn tell_some(
        &mut self,
        topic: TopicId,
        job: JobId,
        member: Option<&str>,
        detail: Detail<'_>,
        includes: impl Fn(PluginKey) -> bool,
    ) {
        let call = Call { topic, member, job, detail };
        for bound in self.handlers(&call).iter().filter(|bound| includes(bound.plugin())) {
            if let Some(text) = self.call(bound, &call).failed {
                self.fail(self.origin(bound.plugin(), call.name()), Some(job), &text);
            }
        }
    }

    fn handlers(&self, call: &Call<'_>) -> Handlers {
        let stack = &self.core.plugins.stack;
        match call.member {
            Some(member) => stack.members(call.topic, member, |_| true),
            None => stack.handlers(call.topic).map(Rc::clone).unwrap_or_default(),
        }
    }

    /// Enters the failure of a handler in the ledger. Eventlogs don't record a failure that decides nothing.
    pub(super) fn fail(&mut self, origin: Origin, job: Option<JobId>, text: &str) {
        let (answer, comparison) = (Some(format!("fails: {text}")), ReplayComparison::Differs);
        self.ledger.compared(origin, job, Kind::Failure, answer, None, comparison);
    }

    /// Calls the plugins at a gate. The job has passed it, or there would be no eventlog.
    fn gate(&mut self, topic: TopicId, job: JobId, member: Option<&str>, detail: Detail<'_>) {
        let call = Call { topic, member, job, detail };
        for bound in self.handlers(&call).iter() {
            let transcript = self.call(bound, &call);
            let origin = self.origin(bound.plugin(), call.name());
            let accepted = || Some("accepts".to_owned());
            let mut enter = |answer, comparison| {
                self.ledger.compared(
                    origin.clone(),
                    Some(job),
                    Kind::Verdict,
                    answer,
                    accepted(),
                    comparison,
                );
            };
            match transcript.failed {
                Some(text) if topic.on_failure() != OnFailure::Reject => {
                    self.fail(origin, Some(job), &text);
                }
                Some(text) => enter(Some(format!("refuses: {text}")), ReplayComparison::Differs),
                None if bound.only_observes() || topic == TopicId::JobNew => {}
                None if transcript.deferred => {
                    enter(Some("decides later".to_owned()), ReplayComparison::NotCompared);
                }
                None => enter(accepted(), ReplayComparison::Same),
            }
        }
    }

    /// Asks the plugins for the priority of a job, and compares what the reported one has answered with the next
    /// priority that was recorded.
    fn prioritize(&mut self, call: &Call<'_>) {
        let id = call.job;
        let (mut own, mut answered) = (Priority::Unchanged, Priority::Unchanged);
        let mut decider = None;
        for bound in self.handlers(call).iter() {
            let transcript = self.call(bound, call);
            if let Some(text) = &transcript.failed {
                self.fail(self.origin(bound.plugin(), call.name()), Some(id), text);
            }
            if transcript.priority != Priority::Unchanged {
                (answered, decider) = (transcript.priority, Some(bound.plugin()));
                if bound.plugin() == self.reported {
                    own = transcript.priority;
                }
            }
        }
        match answered {
            Priority::Unavailable => self.unprioritized.insert(id),
            _ => self.unprioritized.remove(&id),
        };
        let text = match own {
            Priority::Unchanged => return,
            Priority::Unavailable => "not yet".to_owned(),
            Priority::Set(value) => value.to_string(),
        };
        let is_fixed = self
            .core
            .jobs
            .job(id)
            .is_some_and(|job| job.kept().urgency.forced_priority().is_some());
        let (place, recorded) = self.recorded_priority(id).unzip();
        let comparison = match own {
            // Another plugin or the urgency has the last word.
            _ if is_fixed || decider != Some(self.reported) => ReplayComparison::NotCompared,
            // The priority comes later, and is compared then.
            Priority::Unavailable => ReplayComparison::NotCompared,
            _ if recorded.as_ref() == Some(&text) => ReplayComparison::Same,
            _ => ReplayComparison::Differs,
        };
        if comparison != ReplayComparison::NotCompared
            && let Some(place) = place
        {
            self.ledger.take_priority(id, place);
        }
        let origin = self.origin(self.reported, call.name());
        self.ledger.compared(origin, Some(id), Kind::Priority, Some(text), recorded, comparison);
    }

    /// The priority that a job gets next, with the place of its event; `None` if the job goes on without one.
    fn recorded_priority(&self, id: JobId) -> Option<(usize, String)> {
        let log = self.log(id)?;
        let mut upcoming = log.upcoming().iter().zip(log.next..);
        let (entry, place) = upcoming.find(|(entry, _)| {
            matches!(entry.name, Name::Priority | Name::Alloc | Name::Clean | Name::FluxRestart)
        })?;
        match entry.event() {
            Ok(Event::Priority { priority }) => Some((place, priority.to_string())),
            _ => None,
        }
    }
}

/// The topics of a plugin that nothing in an eventlog leads to: requests, purges, and Slurm's scripts.
pub(super) fn not_called(plugin: &LoadedPlugin) -> Vec<String> {
    let is_recorded = |topic| {
        !matches!(
            topic,
            TopicId::JobUpdateKey
                | TopicId::JobInactiveRemove
                | TopicId::SlurmJobSubmit
                | TopicId::SlurmJobModify
                | TopicId::SlurmPrologSlurmctld
                | TopicId::SlurmProlog
                | TopicId::SlurmEpilogSlurmctld
                | TopicId::SlurmEpilog
        )
    };
    let handlers = plugin.descriptor().handlers.iter().filter(|entry| !is_recorded(entry.id));
    handlers.map(HandlerEntry::full_name).collect()
}
