//! Asks plugins anew for the priorities of jobs: `job.priority.get`.

use std::collections::VecDeque;

use super::{outcome, pushing};
use crate::agenda::{Agenda, Frame, Purpose, Work};
use crate::api::Level;
use crate::host::WorkKind;
use crate::job::{Job, JobId, State};
use crate::jobs::{Jobs, Record};
use crate::plugin::Priority;
use crate::plugins::Plugins;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Asks all plugins for the priority of each job in PRIORITY and SCHED.
pub(crate) fn ask_all(agenda: &mut Agenda, jobs: &Jobs) {
    let jobs =
        jobs.active_where(|record| matches!(record.job.state(), State::Priority | State::Sched));
    agenda.push(Work::AskPriorities(jobs.into()));
}

/// Asks for the priority of the next of these jobs.
pub(crate) fn ask_next(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    mut ids: VecDeque<JobId>,
) {
    let Some(id) = ids.pop_front() else { return };
    turn.agenda.push(Work::AskPriorities(ids));
    jobs.tidy_later(&mut turn.effects, id);
    if jobs.get(id).is_some_and(|record| is_owed(record, plugins)) {
        return;
    }
    pushing::push(
        &mut turn.agenda,
        plugins,
        Frame::new(TopicId::JobPriorityGet, id, Purpose::PriorityGet),
    );
}

/// Whether a job in PRIORITY waits for a plugin that isn't asked here: one that has failed repeatedly, or that is still
/// at work on the priority. The answer of another plugin would release the job past it.
fn is_owed(record: &Record, plugins: &Plugins) -> bool {
    let is_at_work =
        || record.async_work.running.iter().any(|work| work.kind == WorkKind::Priority);
    let is_missing = || {
        let handlers = plugins.stack.handlers(TopicId::JobStatePriority);
        let mut handlers = handlers.into_iter().flat_map(|list| list.iter());
        handlers.any(|bound| bound.sets_priority() && bound.instance().is_faulted())
    };
    record.job.state() == State::Priority && (is_at_work() || is_missing())
}

/// Applies the outcome of `job.priority.get`.
pub(crate) fn take_answer(turn: &mut Turn, jobs: &mut Jobs, frame: Frame) {
    outcome::note_attributions(jobs, frame.topic, frame.job, frame.progress.attributions);
    let state = jobs.job(frame.job).map(Job::state);
    match frame.progress.outcome.priority {
        Priority::Set(_) => {
            outcome::set_priority(turn, jobs, frame.job, frame.progress.outcome.priority)
        }
        Priority::Unavailable if state == Some(State::Sched) => {
            let (topic, id) = (frame.topic.name(), frame.job);
            let text = format!("{topic}: job {id} lost its priority; it keeps the old one");
            turn.effects.log(Level::Error, text);
        }
        _ => {}
    }
}
