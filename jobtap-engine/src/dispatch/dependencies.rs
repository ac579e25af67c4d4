//! Asks the plugins that handle a scheme about the dependencies that a jobspec names: at the submission, and again
//! after a restart.

use std::rc::Rc;

use super::pushing;
use super::schemes::unsupported;
use crate::agenda::{Frame, Progress, Purpose, Subject, Work};
use crate::arrays::{Array, Arrays};
use crate::eventlog::{Event, Raised};
use crate::host::{AsyncPolicy, BoundHandler, Handlers, OnRestart, PluginKey};
use crate::job::{JobId, State};
use crate::jobs::{Jobs, Record};
use crate::jobspec::Dependency;
use crate::plugins::Plugins;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Asks the plugins that handle a dependency's scheme about it; with `only`, that plugin alone.
pub(crate) fn push(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    id: JobId,
    dependency: Dependency,
    purpose: Purpose,
    only: Option<PluginKey>,
) {
    let includes = |key| only.is_none_or(|only| only == key);
    let topic = TopicId::JobDependency;
    let mut handlers = plugins.stack.members(topic, &dependency.scheme, includes);
    let mut deciders = 0;
    if purpose == Purpose::Recheck && handlers.iter().any(fails_at_restart) {
        // Handlers that are not called again still support the scheme.
        deciders = handlers.len();
        handlers = fail_interrupted(turn, jobs, id, &dependency, &handlers);
    }
    let subject = Subject::Dependency(dependency);
    let progress = Progress { deciders, ..Progress::default() };
    let handlers = Some(handlers);
    let mut frame = Frame { subject, handlers, progress, ..Frame::new(topic, id, purpose) };
    if only.is_none() {
        pushing::add_shadows(&plugins.shadows, &mut frame);
    }
    turn.agenda.push(Work::Frame(Box::new(frame)));
}

/// Whether the work of an asynchronous handler is declared with `on_restart = fail`.
fn fails_at_restart(bound: &BoundHandler) -> bool {
    let fail = Some(OnRestart::Fail);
    bound.entry().policy.is_some_and(|policy: AsyncPolicy| policy.on_restart == fail)
}

/// Ends the job if interrupted work on its dependency does not begin again. Returns the handlers that are still to be
/// called.
fn fail_interrupted(
    turn: &mut Turn,
    jobs: &mut Jobs,
    id: JobId,
    dependency: &Dependency,
    handlers: &[BoundHandler],
) -> Handlers {
    for bound in handlers.iter().filter(|bound| fails_at_restart(bound)) {
        let what = bound.work_description(Some(dependency));
        let open = jobs.job(id).is_some_and(|job| job.dependencies().any(|open| open == what));
        if open {
            let note = format!("dependency {what}: the manager was restarted while it was open");
            jobs.raise_fatal(turn, id, "dependency", &note);
        }
    }
    handlers
        .iter()
        .filter(|bound| !fails_at_restart(bound))
        .cloned()
        .collect::<Rc<[BoundHandler]>>()
}

/// Asks again about the dependencies of a job in DEPEND: all plugins after a restart, or with `only` a plugin that has
/// just been loaded.
pub(crate) fn recheck(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    id: JobId,
    only: Option<PluginKey>,
) {
    let Some(job) = jobs.job(id) else {
        return;
    };
    let dependencies = job.kept().jobspec.dependencies().unwrap_or_default();
    // The agenda is a stack: the first dependency is pushed last.
    for dependency in dependencies.into_iter().rev() {
        let purpose = if only.is_some() { Purpose::Introduce } else { Purpose::Recheck };
        push(turn, jobs, plugins, id, dependency, purpose, only);
    }
}

/// Asks again about the dependencies of the jobs that may wait for an array, some of whose elements have gone without an
/// event of a job.
pub(crate) fn recheck_for_array(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    arrays: &Arrays,
    array: JobId,
) {
    let Some(userid) = arrays.get(array).map(Array::userid) else { return };
    let may_wait =
        |record: &Record| record.job.state() == State::Depend && record.job.userid() == userid;
    for job in jobs.active_where(may_wait) {
        recheck(turn, jobs, plugins, job, None);
    }
}

/// Handles the end of a recheck. The job was accepted long ago, so a refusal becomes an exception that does not end it.
pub(crate) fn finish_recheck(turn: &mut Turn, jobs: &mut Jobs, plugins: &Plugins, frame: &Frame) {
    let refusal = match (&frame.refusal, &frame.subject) {
        (Some(text), _) => Some(text.clone()),
        (None, Subject::Dependency(dependency)) if frame.progress.deciders == 0 => {
            Some(unsupported(plugins, &dependency.scheme))
        }
        _ => None,
    };
    if let Some(text) = refusal
        && jobs.state(frame.job) == Some(State::Depend)
    {
        let note = format!("{text} (job may be stuck in DEPEND state)");
        let raised = Raised::new("dependency", 4, &note, turn.owner);
        jobs.post(turn, frame.job, Event::Exception(raised));
    }
}
