//! One dispatch: the calls of a topic's handlers, from the first plugin's to the last one's.
//!
//! A dispatch begins as a [`PendingDispatch`] or a [`Frame`]. When a handler asks for something or fails, the
//! frame goes back on the agenda below what that handler asked for, so that its commands are carried
//! out before the next handler is called.

use std::rc::Rc;
use std::sync::Arc;

use super::buffer::{BufferContent, CommandBuffer};
use super::call::{Interrupt, call_handlers, callback_host, log_over_budget};
use super::overlay;
use super::shadow::beside_live;
use super::{faulted, outcome, prep, pushing};
use crate::agenda::{Agenda, Frame, PendingDispatch, Progress, Purpose, Subject, Work};
use crate::api::{Effects, Level};
use crate::core::Core;
use crate::host::{Args, BoundHandler, Failure, Fault, Handlers, Outcome, PrepFailure};
use crate::jobs::Jobs;
use crate::plugin::Priority;
use crate::plugins::Plugins;
use crate::topic::{OnFailure, TopicId};
use crate::turn::Turn;

/// Runs a dispatch that has not begun, in one go as long as its handlers only read and decide.
pub(crate) fn notify(core: &mut Core, pending: PendingDispatch) {
    if !core.plugins.shadows.is_empty() {
        return notify_with_shadows(&mut core.turn.agenda, &core.plugins, pending);
    }
    // `pending` is not destructured here: it is moved only when the loop is left early.
    let (topic, id) = (pending.topic, pending.job);
    let (mut progress, buffer) = (Progress::default(), CommandBuffer::default());
    let (Some(handlers), Some(job)) = (core.plugins.stack.handlers(topic), core.jobs.job(id))
    else {
        return;
    };
    let Some(host) = callback_host(core, handlers, Some(id), &buffer) else { return };
    let args = Args { host: &host, topic, job: Some(job), detail: pending.cause.detail() };
    let interrupt =
        call_handlers(&host, handlers, &mut progress, &args, BoundHandler::is_out_of_service);
    if !matches!(interrupt, Interrupt::AllCalled) {
        let handlers = Rc::clone(handlers);
        return continue_as_frame(core, pending, handlers, progress, interrupt, buffer);
    }
    if !progress.outcome.is_empty() {
        outcome::apply(&mut core.turn, &mut core.jobs, topic, id, progress);
    }
}

/// Turns a pending dispatch into a frame, since there are shadows.
#[cold]
fn notify_with_shadows(agenda: &mut Agenda, plugins: &Plugins, pending: PendingDispatch) {
    let PendingDispatch { topic, job, cause } = pending;
    let subject = Subject::Cause(cause);
    pushing::push(agenda, plugins, Frame { subject, ..Frame::new(topic, job, Purpose::Notify) });
}

/// Turns a pending dispatch into a frame, since one of its handlers asked for something or failed.
#[cold]
#[inline(never)]
fn continue_as_frame(
    core: &mut Core,
    pending: PendingDispatch,
    handlers: Handlers,
    progress: Progress,
    interrupt: Interrupt,
    buffer: CommandBuffer,
) {
    let PendingDispatch { topic, job, cause } = pending;
    let (subject, handlers) = (Subject::Cause(cause), Some(handlers));
    let frame = Frame { subject, handlers, progress, ..Frame::new(topic, job, Purpose::Notify) };
    resume_below(core, Box::new(frame), interrupt, buffer);
}

/// Calls the next handlers of a frame. Returns the frame once all of them were called.
#[must_use]
pub(crate) fn run(core: &mut Core, mut frame: Box<Frame>) -> Option<Box<Frame>> {
    while frame.shadow_calls.is_some() {
        // One handler at a time: shadows are called between them, and the outcome of each is noted.
        beside_live::call_due(core, &mut frame);
        let next = frame.progress.next;
        if frame.handlers.as_ref().is_none_or(|handlers| next >= handlers.len()) {
            return Some(frame);
        }
        frame = run_to(core, frame, next.saturating_add(1))?;
    }
    run_to(core, frame, usize::MAX)
}

/// Calls the handlers before this index. Returns the frame once they were called.
fn run_to(core: &mut Core, mut frame: Box<Frame>, end: usize) -> Option<Box<Frame>> {
    let buffer = CommandBuffer::default();
    // The list is shared, so that this copies a pointer. The frame is changed while its handlers are called.
    let Some(handlers) = frame.handlers.clone() else { return Some(frame) };
    // Taken out, since the arguments borrow the frame during the calls.
    let mut progress = std::mem::take(&mut frame.progress);
    // The outcome of the earlier handlers is set aside, so that shadows can be compared with each handler alone.
    let earlier = frame.shadow_calls.is_some().then(|| std::mem::take(&mut progress.outcome));
    let interrupt = {
        let handlers = handlers.get(..end).unwrap_or(&handlers);
        // The job is gone when it was purged or rejected meanwhile; then nothing follows.
        let job = frame.trial.as_deref().or_else(|| core.jobs.job(frame.job))?;
        match callback_host(core, handlers, Some(job.id()), &buffer) {
            None => Interrupt::AllCalled,
            Some(host) => {
                let (topic, detail) = (frame.topic, frame.detail());
                let args = Args { host: &host, topic, job: Some(job), detail };
                call_handlers(
                    &host,
                    handlers,
                    &mut progress,
                    &args,
                    BoundHandler::is_out_of_service,
                )
            }
        }
    };
    if let Some(mut outcome) = earlier {
        let answered = std::mem::take(&mut progress.outcome);
        if let (Some(calls), Some(bound)) =
            (&mut frame.shadow_calls, handlers.get(end.wrapping_sub(1)))
        {
            calls.note_outcome(bound, &answered, frame.job);
        }
        outcome.merge(answered);
        progress.outcome = outcome;
    }
    frame.progress = progress;
    if matches!(interrupt, Interrupt::AllCalled) {
        return Some(frame);
    }
    resume_below(core, frame, interrupt, buffer);
    None
}

/// Handles what a handler did, and puts the rest of the frame on the agenda below what it asked for.
fn resume_below(
    core: &mut Core,
    mut frame: Box<Frame>,
    interrupt: Interrupt,
    buffer: CommandBuffer,
) {
    // There is one: `call_handlers` was interrupted, so it has reached a handler. The buffer of a frame
    // without one would be empty.
    let Some(bound) = frame.last().cloned() else {
        return core.turn.agenda.push(Work::Frame(frame));
    };
    if matches!(&interrupt, Interrupt::Fault(fault) if !matches!(**fault, Fault::Panic(_))) {
        // A handler that fails changes no jobspec. Its other commands, such as a log line or the end of its
        // prolog, are carried out.
        buffer.drop_updates(0);
    }
    let BufferContent { mut commands, panicked, noted } = buffer.into_content();
    overlay::clear(&mut core.jobs, noted);
    let has_panicked =
        matches!(&interrupt, Interrupt::Fault(fault) if matches!(**fault, Fault::Panic(_)));
    if let Some(calls) = &mut frame.shadow_calls {
        let fault = match &interrupt {
            Interrupt::Fault(fault) => Some(&**fault),
            _ => None,
        };
        calls.note_rest(if has_panicked { &[] } else { &commands }, fault);
    }
    match interrupt {
        Interrupt::AllCalled | Interrupt::Commands => {}
        Interrupt::Deferred => frame.awaited.push(bound.plugin()),
        Interrupt::OverBudget(milliseconds) => {
            let (effects, job) = (&mut core.turn.effects, Some(frame.job));
            log_over_budget(effects, &core.plugins, &bound, job, milliseconds);
        }
        Interrupt::OutOfService => {
            if bound.instance().is_faulted() {
                decide_without(core, &bound, &mut frame);
            }
        }
        Interrupt::Fault(fault) => {
            if has_panicked {
                // The plugin may have been in the middle of anything when it panicked, so none of its commands count.
                commands.clear();
            }
            handle_fault(core, &mut frame, &bound, *fault);
        }
    }
    let (topic, plugin) = (frame.topic.name(), bound.plugin());
    core.turn.agenda.push(Work::Frame(frame));
    core.turn.agenda.push_commands(topic, commands);
    // Last, so that what a faulted plugin has open is closed before anything else.
    if has_panicked {
        faulted::note_panic(&mut core.turn, &mut core.plugins, plugin);
    }
    faulted::note_panics(&mut core.turn, &mut core.plugins, panicked);
}

/// Handles the failure of a handler: a gate refuses; elsewhere the job goes on, and the log says so.
fn handle_fault(core: &mut Core, frame: &mut Frame, bound: &BoundHandler, fault: Fault) {
    let plugin = Arc::clone(bound.instance().name());
    let at_fault = match fault {
        Fault::Failure(_) => AtFault::Node,
        Fault::Panic(_) | Fault::Busy => AtFault::Plugin,
    };
    let (refusal, report) = match fault {
        // A text for the user from the plugin's author; not a fault of the plugin.
        Fault::Failure(Failure::Reject(text)) => (text, None),
        Fault::Failure(failure) => {
            let text = failure.text().to_owned();
            (text.clone(), Some(text))
        }
        Fault::Panic(text) => {
            let consequence = match core.jobs.is_accepted(frame.job) {
                true => "what was asked is refused",
                false => "the job was not accepted",
            };
            let refusal = format!("plugin {plugin} failed; {consequence}, please report it");
            (refusal, Some(format!("panicked: {text}")))
        }
        Fault::Busy => (String::new(), Some("called while it is being called".to_owned())),
    };
    if prep::is_prep(frame.topic) {
        return fail_prep(core, frame, bound, report.unwrap_or(refusal), at_fault);
    }
    let is_logged = report.is_some();
    if let Some(text) = report {
        let topic = frame.full_topic();
        core.turn
            .effects
            .log(Level::Error, format!("{plugin}: {topic}: job {}: {text}", frame.job));
    }
    if frame.topic.on_failure() == OnFailure::Reject {
        if !is_logged {
            // Flux's words, which operators search for.
            let topic = frame.full_topic();
            core.turn.effects.log(Level::Debug, format!("jobtap: {plugin}: {topic}: rc=-1"));
        }
        frame.stop();
        let general = || format!("rejected by job-manager plugin '{plugin}'");
        frame.refusal = Some(if refusal.is_empty() { general() } else { refusal });
    }
}

/// What is to blame for a failed Slurm prolog or epilog.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtFault {
    Node,
    Plugin,
}

/// Handles a Slurm prolog or epilog that fails at once, or can't be called, in the same way as an asynchronous one that
/// fails later.
fn fail_prep(
    core: &mut Core,
    frame: &mut Frame,
    bound: &BoundHandler,
    note: String,
    at_fault: AtFault,
) {
    let node = match &frame.subject {
        // A broken plugin must not drain one node after the other. But a node that its epilog has not cleaned is
        // drained.
        Subject::Node(node) if at_fault == AtFault::Node || frame.topic == TopicId::SlurmEpilog => {
            Some(node.clone())
        }
        _ => None,
    };
    let (topic, job) = (frame.topic, frame.job);
    let failure = PrepFailure { topic, job, description: None, node, note };
    // As in Slurm, the first failure ends the list.
    frame.stop();
    prep::fail(core, bound.plugin(), failure);
}

/// Decides the outcome of a topic without the handler of a faulted plugin: a gate refuses, and a priority stays open.
fn decide_without(core: &mut Core, bound: &BoundHandler, frame: &mut Frame) {
    if frame.topic.on_failure() == OnFailure::Reject && !bound.only_observes() {
        frame.progress.deciders += 1;
        frame.stop();
        let consequence = match core.jobs.is_accepted(frame.job) {
            true => "what it decides about is refused",
            false => "no job is accepted",
        };
        let plugin = bound.instance().name();
        frame.refusal = Some(format!(
            "plugin {plugin} has failed repeatedly: {consequence} until an administrator reloads it"
        ));
    } else if prep::is_prep(frame.topic) {
        let note = format!("plugin {} has failed repeatedly", bound.instance().name());
        fail_prep(core, frame, bound, note, AtFault::Plugin);
    } else if bound.sets_priority() {
        let outcome = Outcome::priority(Priority::Unavailable);
        frame.progress.attributions.get_or_insert_default().note(bound.plugin(), &outcome);
        frame.progress.outcome.merge(outcome);
    }
}

/// Applies the outcome of a dispatch with [`Purpose::Notify`].
pub(crate) fn finish_notify(turn: &mut Turn, jobs: &mut Jobs, frame: Frame) {
    log_refusal(&mut turn.effects, &frame);
    outcome::apply(turn, jobs, frame.topic, frame.job, frame.progress);
}

/// Logs the refusal of a gate that no longer decides anything, such as `job.create` for a job that was accepted long
/// ago.
pub(crate) fn log_refusal(effects: &mut Effects, frame: &Frame) {
    if let Some(text) = &frame.refusal {
        let text = format!("{}: job {}: refused: {text}", frame.full_topic(), frame.job);
        effects.log(Level::Error, text);
    }
}
