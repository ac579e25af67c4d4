//! How the plugins are asked for the priorities of jobs anew: `job.priority.get`.

use std::collections::VecDeque;

use super::{frames, outcome};
use crate::engine::agenda::{Frame, Purpose, Work};
use crate::engine::api::Level;
use crate::engine::core::Core;
use crate::host::Priority;
use crate::job::{Job, JobId, State};
use crate::topic::TopicId;

/// Asks all plugins for the priority of each job in PRIORITY and SCHED.
pub(crate) fn ask_all(core: &mut Core) {
    let jobs =
        core.jobs.active_where(|record| matches!(record.job.state, State::Priority | State::Sched));
    core.agenda.push(Work::AskPriorities(jobs.into()));
}

/// Asks for the priority of the next of these jobs.
pub(crate) fn ask_next(core: &mut Core, mut jobs: VecDeque<JobId>) {
    let Some(id) = jobs.pop_front() else { return };
    core.agenda.push(Work::AskPriorities(jobs));
    core.touch(id);
    frames::push(core, Frame::new(TopicId::JobPriorityGet, id, Purpose::PriorityGet));
}

/// Takes over the answer to `job.priority.get`.
pub(crate) fn take_answer(core: &mut Core, frame: Frame) {
    outcome::note_said(core, frame.topic, frame.job, frame.progress.said);
    let state = core.job(frame.job).map(Job::state);
    match frame.progress.outcome.priority {
        Priority::Set(_) => outcome::set_priority(core, frame.job, frame.progress.outcome.priority),
        Priority::Unavailable if state == Some(State::Sched) => {
            let (topic, id) = (frame.topic.name(), frame.job);
            let text = format!("{topic}: job {id} lost its priority; it keeps the old one");
            core.log(Level::Error, text);
        }
        _ => {}
    }
}
