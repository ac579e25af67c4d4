//! Introduces existing jobs to a plugin that is loaded later.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::{dependencies, priorities, pushing};
use crate::agenda::{Agenda, Frame, OrphanStep, Purpose, Work};
use crate::host::{IntroductionOrder, PluginKey};
use crate::job::{Job, JobId, State};
use crate::jobs::{Jobs, Record};
use crate::plugins::Plugins;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Introduces the active jobs to a plugin, then the inactive ones if it has a handler for these, then
/// asks all plugins for all priorities.
pub(crate) fn introduce_jobs(agenda: &mut Agenda, jobs: &Jobs, plugins: &Plugins, key: PluginKey) {
    // The agenda is a stack: what comes first is pushed last.
    priorities::ask_all(agenda, jobs);
    introduce_inactive(agenda, jobs, plugins, key);
    // A submission that has not passed its gates will be introduced by its own `job.new`.
    let mut ids = jobs.active_where(Record::is_accepted);
    let order = plugins.stack.get(key).map(|plugin| plugin.descriptor().load_order);
    let state = |id: &JobId| jobs.job(*id).map(Job::state);
    // Both sorts are stable, so that jobs of one state stay in the order of their ids.
    match order.unwrap_or_default() {
        IntroductionOrder::ById => {}
        IntroductionOrder::State => ids.sort_by_key(state),
        IntroductionOrder::StateReversed => ids.sort_by_key(|id| Reverse(state(id))),
    }
    agenda.push(Work::Introduce(key, ids.into()));
}

fn introduce_inactive(agenda: &mut Agenda, jobs: &Jobs, plugins: &Plugins, key: PluginKey) {
    let handlers = plugins.stack.handlers(TopicId::JobInactiveAdd);
    if handlers.is_none_or(|list| list.iter().all(|bound| bound.plugin() != key)) {
        return;
    }
    // Jobs that have become inactive in this turn still have full records.
    let fresh = jobs.records().filter(|record| record.job.state() == State::Inactive);
    let mut ids: Vec<JobId> = fresh.map(|record| record.job.id()).collect();
    ids.extend(jobs.summarized_ids());
    ids.sort_unstable();
    agenda.push(Work::IntroduceInactive(key, ids.into()));
}

/// Introduces the next of these inactive jobs.
pub(crate) fn introduce_next_inactive(
    agenda: &mut Agenda,
    plugins: &Plugins,
    key: PluginKey,
    mut ids: VecDeque<JobId>,
) {
    let Some(id) = ids.pop_front() else { return };
    agenda.push(Work::IntroduceInactive(key, ids));
    let frame = Frame::new(TopicId::JobInactiveAdd, id, Purpose::Introduce);
    pushing::push_to_plugin(agenda, plugins, key, frame);
}

/// Introduces the next of these jobs, in its present state.
pub(crate) fn introduce_next(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    key: PluginKey,
    mut ids: VecDeque<JobId>,
) {
    let Some(id) = ids.pop_front() else { return };
    turn.agenda.push(Work::Introduce(key, ids));
    let Some(state) = jobs.state(id).filter(|state| *state != State::Inactive) else {
        return;
    };
    // Act again after the plugin has seen the job: it may have taken over what the job waited for.
    turn.agenda.push(Work::Act(id));
    turn.agenda.push(Work::Orphans(id, OrphanStep::Rerun));
    match state {
        State::Depend => {
            let frame = Frame::new(TopicId::JobStateDepend, id, Purpose::Introduce);
            pushing::push_to_plugin(&mut turn.agenda, plugins, key, frame);
            dependencies::recheck(turn, jobs, plugins, id, Some(key));
        }
        // It waits for a priority, which this plugin may give.
        State::Priority => {
            let frame = Frame::new(TopicId::JobStatePriority, id, Purpose::Notify);
            pushing::push_to_plugin(&mut turn.agenda, plugins, key, frame);
        }
        _ => {}
    }
    for topic in [TopicId::JobNew, TopicId::JobCreate] {
        pushing::push_to_plugin(
            &mut turn.agenda,
            plugins,
            key,
            Frame::new(topic, id, Purpose::Introduce),
        );
    }
}
