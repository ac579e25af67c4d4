//! Introduces existing jobs to a shadow.

use std::cmp::Reverse;
use std::rc::Rc;

use serde_json::Value;

use super::call::{Charge, Topic, ask_all, call};
use crate::core::Core;
use crate::host::{Detail, Handlers, IntroductionOrder, PluginKey};
use crate::job::{JobId, State};
use crate::jobs::{Jobs, Record};
use crate::plugins::Plugins;
use crate::topic::TopicId;

/// Introduces all jobs to a shadow as to a plugin that is loaded live. What its handlers return is ignored; what the
/// shadow stores for itself is kept.
pub(super) fn introduce(core: &mut Core, key: PluginKey) {
    let Some(shadow) = core.plugins.shadows.get(key) else { return };
    let order = shadow.plugin.descriptor().load_order;
    let mut jobs = core.jobs.active_where(Record::is_accepted);
    let state = |id: &JobId| core.jobs.state(*id);
    match order {
        IntroductionOrder::ById => {}
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
    if handles(&core.plugins, key, TopicId::JobInactiveAdd) {
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
            let dependencies = core.jobs.job(id).map(|job| job.kept().jobspec.dependencies());
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

fn handles(plugins: &Plugins, key: PluginKey, topic: TopicId) -> bool {
    plugins.shadows.get(key).is_some_and(|shadow| shadow.stack.handles(topic))
}

fn tell(core: &mut Core, key: PluginKey, topic: TopicId, id: JobId) {
    let shadow = core.plugins.shadows.get(key);
    let handlers = shadow.and_then(|shadow| shadow.stack.handlers(topic)).map(Rc::clone);
    call_each(core, &handlers.unwrap_or_default(), topic, id, Detail::None);
}

fn call_each(core: &mut Core, handlers: &Handlers, topic: TopicId, id: JobId, detail: Detail<'_>) {
    for bound in handlers.iter() {
        let topic = Topic { topic, trial: None, job: Some(id), detail };
        // The answer is ignored: what a shadow asks for on existing jobs was decided long ago.
        let _ = call(core, bound, topic, Charge::No);
    }
}

/// The data that the live plugin of this name has about active jobs.
pub(super) fn data_of(jobs: &Jobs, name: &str) -> Vec<(JobId, Option<Value>)> {
    let data = |record: &Record| {
        let volatile = record.volatile_data.as_ref().and_then(|data| data.get(name));
        volatile.or_else(|| record.data.get(name)).cloned()
    };
    jobs.records().map(|record| (record.job.id(), data(record))).collect()
}
