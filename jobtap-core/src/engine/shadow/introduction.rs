//! The jobs that are there when a shadow is loaded, and priorities that it is asked for.

use std::cmp::Reverse;
use std::rc::Rc;

use serde_json::Value;

use super::call::{Charge, Topic, call, has_live, present_priority, record, waits};
use super::compare::priorities;
use crate::engine::core::Core;
use crate::engine::jobs::Record;
use crate::host::{Detail, Handlers, IntroductionOrder, PluginKey, Priority};
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// Introduces all jobs to a shadow as to a plugin that is loaded live. What it returns doesn't count; what it
/// keeps for itself, it keeps.
pub(super) fn introduce(core: &mut Core, key: PluginKey) {
    let Some(shadow) = core.plugins.shadows.get(key) else { return };
    let order = shadow.plugin.descriptor().load_order;
    let mut jobs = core.jobs.active_where(Record::is_accepted);
    let state = |id: &JobId| core.jobs.state(*id);
    match order {
        IntroductionOrder::None => {}
        IntroductionOrder::State => jobs.sort_by_key(state),
        IntroductionOrder::StateReversed => jobs.sort_by_key(|id| Reverse(state(id))),
    }
    for &id in &jobs {
        introduce_one(core, key, id);
    }
    let mut inactive = core.jobs.summarized_ids();
    let fresh = core.jobs.records().filter(|record| record.job.state() == State::Inactive);
    inactive.extend(fresh.map(|record| record.job.id()));
    inactive.sort_unstable();
    if handles(core, key, TopicId::JobInactiveAdd) {
        for id in inactive {
            tell(core, key, TopicId::JobInactiveAdd, id);
        }
    }
    ask_all(core, key, Charge::No);
}

fn introduce_one(core: &mut Core, key: PluginKey, id: JobId) {
    tell(core, key, TopicId::JobCreate, id);
    tell(core, key, TopicId::JobNew, id);
    match core.jobs.state(id) {
        Some(State::Depend) => {
            let dependencies = core.job(id).map(|job| job.jobspec.dependencies());
            for dependency in dependencies.and_then(Result::ok).unwrap_or_default() {
                let topic = TopicId::JobDependency;
                let Some(shadow) = core.plugins.shadows.get(key) else { return };
                let handlers = shadow.stack.members(topic, &dependency.scheme, |_| true);
                call_each(core, &handlers, topic, id, Detail::Dependency(&dependency));
            }
            tell(core, key, TopicId::JobStateDepend, id);
        }
        Some(State::Priority) => tell(core, key, TopicId::JobStatePriority, id),
        _ => {}
    }
}

fn handles(core: &Core, key: PluginKey, topic: TopicId) -> bool {
    core.plugins.shadows.get(key).is_some_and(|shadow| shadow.stack.handles(topic))
}

fn tell(core: &mut Core, key: PluginKey, topic: TopicId, id: JobId) {
    let shadow = core.plugins.shadows.get(key);
    let handlers = shadow.and_then(|shadow| shadow.stack.handlers(topic)).map(Rc::clone);
    call_each(core, &handlers.unwrap_or_default(), topic, id, Detail::None);
}

fn call_each(core: &mut Core, handlers: &Handlers, topic: TopicId, id: JobId, detail: Detail<'_>) {
    for bound in handlers.iter() {
        let topic = Topic { topic, trial: None, job: Some(id), detail };
        // What it asks for on the jobs that are there was decided long ago.
        let _ = call(core, bound, topic, Charge::No);
    }
}

/// Asks a shadow that wants to be asked for all priorities. When a live plugin has its name, that one wants so
/// too, and the shadow is asked with it.
pub(super) fn ask_if_alone(core: &mut Core, key: PluginKey) {
    let Some(shadow) = core.plugins.shadows.get(key) else { return };
    if !shadow.is_asked && !has_live(core, shadow) {
        ask_all(core, key, Charge::Yes);
    }
}

/// Asks a shadow for the priority of each waiting job, and compares it with the one that the job has.
fn ask_all(core: &mut Core, key: PluginKey, charge: Charge) {
    let topic = TopicId::JobPriorityGet;
    let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
    shadow.is_asked = true;
    let name = std::sync::Arc::clone(shadow.plugin.name());
    let handlers = shadow.stack.handlers(topic).map(Rc::clone).unwrap_or_default();
    // A plugin behind it in the stack may override what it answers; then nothing is known of the result.
    let mut live = core.plugins.stack.handlers(topic).into_iter().flat_map(|list| list.iter());
    let has_place = live.any(|bound| **bound.instance().name() == *name);
    let is_last = !(has_place && live.any(|bound| bound.entry().returns_value));
    let jobs = core.jobs.active_where(|record| record.is_accepted() && waits(record.job.state()));
    for id in jobs {
        let Some(shadow) = core.plugins.shadows.get(key) else { return };
        if shadow.has_refused(id) {
            continue;
        }
        let mut priority = Priority::Unchanged;
        for bound in handlers.iter() {
            let topic = Topic { topic, trial: None, job: Some(id), detail: Detail::None };
            match call(core, bound, topic, charge) {
                Some(called) => priority = called.answer.priority,
                None => break,
            }
        }
        let Some(job) = core.job(id) else { continue };
        let is_decided = job.priority().is_some() && job.urgency.forced_priority().is_none();
        let present = present_priority(job);
        if is_last
            && is_decided
            && matches!(priority, Priority::Set(_))
            && let Some(found) = priorities(id, present, priority)
        {
            let now = core.clock.now;
            record(core, key, topic.name(), vec![found], now);
        }
    }
    if let Some(shadow) = core.plugins.shadows.get_mut(key) {
        shadow.is_asked = false;
    }
}

/// The data that the live plugin of this name has on the jobs that are active.
pub(super) fn data_of(core: &Core, name: &str) -> Vec<(JobId, Option<Value>)> {
    let data = |record: &Record| {
        let volatile = record.volatile_data.as_ref().and_then(|data| data.get(name));
        volatile.or_else(|| record.data.get(name)).cloned()
    };
    core.jobs.records().map(|record| (record.job.id(), data(record))).collect()
}
