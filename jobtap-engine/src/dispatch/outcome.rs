//! What follows from the priorities, annotations and resources that handlers return.

use serde_json::{Map, Value};

use crate::agenda::{Attributions, Progress};
use crate::alloc::schedule;
use crate::api::Effects;
use crate::eventlog::{Event, Name};
use crate::job::{JobId, State, merge_annotations};
use crate::jobs::Jobs;
use crate::plugin::Priority;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Applies what all handlers of a topic have decided.
pub(crate) fn apply(
    turn: &mut Turn,
    jobs: &mut Jobs,
    topic: TopicId,
    id: JobId,
    progress: Progress,
) {
    note_attributions(jobs, topic, id, progress.attributions);
    let priority = progress.outcome.priority;
    let decisions = progress.outcome.decisions();
    if let Some(notes) = decisions.annotations {
        match topic {
            // They are part of what is first published about the job.
            TopicId::JobNew => {
                jobs.annotate(id, notes);
            }
            _ => {
                jobs.post_annotations(turn, id, notes);
            }
        }
    }
    if let Some(resources) = decisions.resources {
        schedule::force_resources(turn, jobs, id, resources);
    }
    set_priority(turn, jobs, id, priority);
}

/// Notes what plugins have said about a job, for `job why`.
pub(super) fn note_attributions(
    jobs: &mut Jobs,
    topic: TopicId,
    id: JobId,
    new: Option<Box<Attributions>>,
) {
    if matches!(topic, TopicId::JobStatePriority | TopicId::JobPriorityGet) {
        jobs.attributions.ask_priority(id);
    }
    if let Some(new) = new.filter(|_| jobs.state(id) != Some(State::Inactive)) {
        jobs.attributions.add(id, *new);
    }
}

/// Stores annotations that the job already has.
pub(crate) fn store_annotations(
    effects: &mut Effects,
    jobs: &mut Jobs,
    id: JobId,
    notes: Map<String, Value>,
) {
    let Some(record) = jobs.get_mut(id) else { return };
    let stored = record.stored_annotations.get_or_insert_default();
    merge_annotations(stored, notes);
    let text = serde_json::to_string(stored).unwrap_or_default();
    jobs.put(effects, id, "annotations".to_owned(), text);
}

/// Sets a job's priority, if its state and urgency permit.
pub(crate) fn set_priority(turn: &mut Turn, jobs: &mut Jobs, id: JobId, priority: Priority) {
    let Priority::Set(wanted) = priority else {
        return;
    };
    let Some(record) = jobs.get(id) else {
        return;
    };
    let job = &record.job;
    // Urgencies 0 and 31 override every plugin.
    let value = job.kept().urgency.forced_priority().unwrap_or(wanted);
    // A pending `priority` event may set another value, so that this one has to follow it.
    let changed = job.priority() != Some(value) || record.pending_events.contains(&Name::Priority);
    match job.state() {
        State::Priority => jobs.post(turn, id, Event::Priority { priority: value }),
        State::Sched if changed => jobs.post(turn, id, Event::Priority { priority: value }),
        _ => {}
    }
}
