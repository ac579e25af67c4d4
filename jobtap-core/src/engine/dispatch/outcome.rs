//! What follows from the priorities, annotations and resources that handlers return.

use serde_json::{Map, Value};

use crate::engine::agenda::{Progress, Said};
use crate::engine::alloc::schedule;
use crate::engine::core::Core;
use crate::engine::events;
use crate::host::Priority;
use crate::job::{JobId, State, merge_annotations};
use crate::topic::TopicId;

/// Takes over what all handlers of a topic have decided.
pub(crate) fn take(core: &mut Core, topic: TopicId, id: JobId, progress: Progress) {
    note_said(core, topic, id, progress.said);
    let priority = progress.outcome.priority;
    let decisions = progress.outcome.decisions();
    if let Some(notes) = decisions.annotations {
        match topic {
            // They are part of what is first published of the job.
            TopicId::JobNew => {
                core.jobs.annotate(id, notes);
            }
            _ => {
                core.annotate(id, notes);
            }
        }
    }
    if let Some(resources) = decisions.resources {
        schedule::force_resources(core, id, resources);
    }
    set_priority(core, id, priority);
}

/// Notes what plugins have said of a job, for `job why`.
pub(super) fn note_said(core: &mut Core, topic: TopicId, id: JobId, said: Option<Box<Said>>) {
    if matches!(topic, TopicId::JobStatePriority | TopicId::JobPriorityGet) {
        core.jobs.said.ask_priority(id);
    }
    if let Some(said) = said.filter(|_| core.jobs.state(id) != Some(State::Inactive)) {
        core.jobs.said.add(id, *said);
    }
}

/// Makes annotations durable, which the job has already.
pub(crate) fn store_annotations(core: &mut Core, id: JobId, notes: Map<String, Value>) {
    let Some(record) = core.jobs.get_mut(id) else { return };
    let stored = record.stored_annotations.get_or_insert_default();
    merge_annotations(stored, notes);
    let text = serde_json::to_string(stored).unwrap_or_default();
    core.put(id, "annotations".to_owned(), text);
}

/// Sets a job's priority, if its state and urgency permit.
pub(crate) fn set_priority(core: &mut Core, id: JobId, priority: Priority) {
    let Priority::Set(wanted) = priority else {
        return;
    };
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let job = &record.job;
    // Urgencies 0 and 31 override every plugin.
    let value = job.urgency.forced_priority().unwrap_or(wanted);
    // A pending `priority` event may set another value, so that this one has to follow it.
    let changed = job.priority != Some(value) || record.pending_events.contains("priority");
    match job.state {
        State::Priority => core.post(id, events::priority(core.clock.now, value)),
        State::Sched if changed => core.post(id, events::priority(core.clock.now, value)),
        _ => {}
    }
}
