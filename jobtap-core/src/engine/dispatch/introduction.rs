//! How the jobs that are there are introduced to a plugin that is loaded later.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::{dependencies, frames, priorities};
use crate::engine::agenda::{Frame, OrphanStep, Purpose, Work};
use crate::engine::core::Core;
use crate::engine::jobs::Record;
use crate::host::{IntroductionOrder, PluginKey};
use crate::job::{Job, JobId, State};
use crate::topic::TopicId;

/// Introduces the active jobs to a plugin, then the inactive ones if it has a handler for these, then
/// asks all plugins for all priorities.
pub(crate) fn introduce_jobs(core: &mut Core, key: PluginKey) {
    // The agenda is a stack: what comes first is pushed last.
    priorities::ask_all(core);
    introduce_inactive(core, key);
    // A submission that has not passed its gates will be introduced by its own `job.new`.
    let mut jobs = core.jobs.active_where(Record::is_accepted);
    let order = core.plugins.stack.get(key).map(|plugin| plugin.descriptor().load_order);
    let state = |id: &JobId| core.job(*id).map(Job::state);
    // Both sorts are stable, so that jobs of one state stay in the order of their ids.
    match order.unwrap_or_default() {
        IntroductionOrder::None => {}
        IntroductionOrder::State => jobs.sort_by_key(state),
        IntroductionOrder::StateReversed => jobs.sort_by_key(|id| Reverse(state(id))),
    }
    core.agenda.push(Work::Introduce(key, jobs.into()));
}

fn introduce_inactive(core: &mut Core, key: PluginKey) {
    let handlers = core.plugins.stack.handlers(TopicId::JobInactiveAdd);
    if handlers.is_none_or(|list| list.iter().all(|bound| bound.plugin() != key)) {
        return;
    }
    // Those that have become inactive in this turn are still records.
    let fresh = core.jobs.records().filter(|record| record.job.state == State::Inactive);
    let mut jobs: Vec<JobId> = fresh.map(|record| record.job.id).collect();
    jobs.extend(core.jobs.summarized_ids());
    jobs.sort_unstable();
    core.agenda.push(Work::IntroduceInactive(key, jobs.into()));
}

/// Introduces the next of these inactive jobs.
pub(crate) fn introduce_next_inactive(core: &mut Core, key: PluginKey, mut jobs: VecDeque<JobId>) {
    let Some(id) = jobs.pop_front() else { return };
    core.agenda.push(Work::IntroduceInactive(key, jobs));
    let frame = Frame::new(TopicId::JobInactiveAdd, id, Purpose::Introduce);
    frames::push_to_plugin(core, key, frame);
}

/// Introduces the next of these jobs, in the state in which it is by now.
pub(crate) fn introduce_next(core: &mut Core, key: PluginKey, mut jobs: VecDeque<JobId>) {
    let Some(id) = jobs.pop_front() else { return };
    core.agenda.push(Work::Introduce(key, jobs));
    let Some(state) = core.jobs.state(id).filter(|state| *state != State::Inactive) else {
        return;
    };
    // Once more after the plugin has seen the job: it may have taken over what the job waited for.
    core.agenda.push(Work::Act(id));
    core.agenda.push(Work::Orphans(id, OrphanStep::Rerun));
    match state {
        State::Depend => {
            let frame = Frame::new(TopicId::JobStateDepend, id, Purpose::Introduce);
            frames::push_to_plugin(core, key, frame);
            dependencies::recheck(core, id, Some(key));
        }
        // It waits for a priority, which this plugin may give.
        State::Priority => {
            let frame = Frame::new(TopicId::JobStatePriority, id, Purpose::Notify);
            frames::push_to_plugin(core, key, frame);
        }
        _ => {}
    }
    for topic in [TopicId::JobNew, TopicId::JobCreate] {
        frames::push_to_plugin(core, key, Frame::new(topic, id, Purpose::Introduce));
    }
}
