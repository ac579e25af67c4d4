//! One topic through the stack of plugins: each handler in load order, what it asked for before the
//! next one, and what all of them decided at the end.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::callback::{Asked, Queued};
use super::host::drop_updates;
use super::notices::{Cause, Progress, Stop};
use super::submit::Step;
use super::updates::Updating;
use super::work::{Commands, Work};
use super::{Engine, Level};
use crate::host::{
    Args, Bound, Detail, Failure, Fault, Handlers, Outcome, PluginKey, Priority, UpdateRequest,
};
use crate::job::{Job, JobId, State};
use crate::jobspec::Dependency;
use crate::topic::{OnFailure, TopicId};

/// One topic on its way through the stack of plugins.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) topic: TopicId,
    pub(super) job: JobId,
    pub(super) given: Given,
    /// The job as it would be, where that is what is asked about.
    pub(super) trial: Option<Box<Job>>,
    /// The user's update that this is part of.
    pub(super) updating: Option<Box<Updating>>,
    /// As they were when the frame was stacked.
    pub(super) handlers: Option<Handlers>,
    pub(super) progress: Progress,
    /// Plugins whose asynchronous handlers have yet to answer.
    pub(super) awaited: Vec<PluginKey>,
    /// Why a gate refused.
    pub(super) refusal: Option<String>,
    pub(super) then: Then,
}

/// What a topic has beside its job.
#[derive(Debug)]
pub(super) enum Given {
    Cause(Cause),
    Dependency(Dependency),
    UpdateRequest(UpdateRequest),
}

/// What follows when all handlers of a frame were called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Take over priority and annotations.
    Notify,
    /// The same, for a job introduced to one plugin: nothing it returns counts.
    Introduce,
    /// A gate of a submission: go on with this step, or reject.
    Gate(Step),
    /// A dependency that is asked for again: a refusal becomes an exception.
    Recheck,
    /// `job.priority.get`: take over a changed priority.
    PriorityGet,
    /// A user's update: go on with it, or refuse it.
    Update,
}

impl Frame {
    /// A frame without handlers yet.
    pub(super) fn new(topic: TopicId, job: JobId, then: Then) -> Self {
        Self {
            topic,
            job,
            given: Given::Cause(Cause::None),
            trial: None,
            updating: None,
            handlers: None,
            progress: Progress::default(),
            awaited: Vec::new(),
            refusal: None,
            then,
        }
    }

    fn detail(&self) -> Detail<'_> {
        match &self.given {
            Given::Cause(cause) => cause.detail(),
            Given::Dependency(dependency) => Detail::Dependency(dependency),
            Given::UpdateRequest(request) => Detail::UpdateRequest(request),
        }
    }

    /// No handler more is called.
    fn stop(&mut self) {
        self.progress.next = usize::MAX;
    }

    /// The handler that was called last.
    fn last(&self) -> Option<&Bound> {
        self.handlers.as_ref()?.get(self.progress.next.checked_sub(1)?)
    }
}

impl Engine {
    /// Stacks a frame for a topic, if a plugin handles it or something waits for its end.
    pub(super) fn stack_frame(&mut self, frame: Frame) {
        let idle = matches!(frame.then, Then::Notify | Then::Introduce);
        if !idle || self.plugins.stack.handles(frame.topic) {
            let handlers = self.plugins.stack.handlers(frame.topic).map(Rc::clone);
            self.work.push(Work::Frame(Box::new(Frame { handlers, ..frame })));
        }
    }

    /// Stacks a frame for these handlers, if there are any.
    pub(super) fn stack_frame_of(&mut self, frame: Frame, handlers: Handlers) {
        if !handlers.is_empty() {
            let handlers = Some(handlers);
            self.work.push(Work::Frame(Box::new(Frame { handlers, ..frame })));
        }
    }

    /// Calls the frame's handlers until one asks for something, or the frame ends.
    pub(super) fn step(&mut self, mut frame: Box<Frame>) {
        let asked = Asked::default();
        let Some(handlers) = frame.handlers.clone() else { return self.end_frame(*frame) };
        let mut progress = std::mem::take(&mut frame.progress);
        let Some(job) = frame.trial.as_deref().or_else(|| self.seen(frame.job)) else { return };
        let Some(host) = self.host_for(&handlers, Some(job.id()), &asked) else {
            return self.end_frame(*frame);
        };
        let (topic, detail) = (frame.topic, frame.detail());
        let args = Args { host: &host, topic, job: Some(job), detail };
        let stop = self.call_handlers(&handlers, &mut progress, &host, &args);
        frame.progress = progress;
        self.go_on(frame, stop, asked);
    }

    /// Sees to the handler at which the loop was left, and stacks the rest of the frame below what
    /// that handler asked for.
    pub(super) fn go_on(&mut self, mut frame: Box<Frame>, stop: Stop, asked: Asked) {
        let Some(bound) = frame.last().cloned() else { return self.end_frame(*frame) };
        let (mut commands, panicked) = asked.into_parts();
        match stop {
            Stop::End => return self.end_frame(*frame),
            Stop::Asked => {}
            Stop::Deferred => frame.awaited.push(bound.plugin()),
            Stop::Slow(milliseconds) => self.over_budget(&bound, Some(frame.job), milliseconds),
            Stop::Out => {
                if bound.instance().is_faulted() {
                    self.without(&bound, &mut frame);
                }
            }
            Stop::Fault(fault) => {
                if matches!(*fault, Fault::Panic(_)) {
                    commands.clear();
                }
                drop_updates(&mut commands, 0);
                self.fault(&mut frame, &bound, *fault);
            }
        }
        self.note_panics(panicked);
        let topic = frame.topic.name();
        self.work.push(Work::Frame(frame));
        self.stack_commands(topic, commands);
    }

    pub(super) fn stack_commands(&mut self, topic: &'static str, commands: Vec<Queued>) {
        if !commands.is_empty() {
            let queue = commands.into();
            self.work.push(Work::Commands(Box::new(Commands { topic, queue })));
        }
    }

    #[cold]
    pub(super) fn over_budget(&mut self, bound: &Bound, job: Option<JobId>, milliseconds: u64) {
        let (plugin, topic) = (bound.instance().name(), bound.entry().full_name());
        let job = job.map(|id| format!(": job {id}")).unwrap_or_default();
        self.took_too_long(plugin, &format!("{topic}{job}"), milliseconds);
    }

    /// Logs what is over the budget of `job-manager.plugin-time-budget`.
    pub(super) fn took_too_long(&mut self, plugin: &str, what: &str, milliseconds: u64) {
        let (took, budget) = (milliseconds as f64 / 1e3, self.plugins.budget as f64 / 1e3);
        let text = format!("{plugin}: {what}: took {took} s, more than its budget of {budget} s");
        self.log(Level::Warning, text);
    }

    /// A handler failed: a gate closes, elsewhere the job goes on and the log says so.
    fn fault(&mut self, frame: &mut Frame, bound: &Bound, fault: Fault) {
        let plugin = Arc::clone(bound.instance().name());
        let (refusal, report) = match fault {
            Fault::Failure(Failure::Reject(text)) => (text, None),
            Fault::Failure(failure) => {
                let text = failure.text().to_owned();
                (text.clone(), Some(text))
            }
            Fault::Panic(text) => {
                self.note_panic(bound.plugin());
                let so = match self.is_accepted(frame.job) {
                    true => "what was asked is refused",
                    false => "the job was not accepted",
                };
                let refusal = format!("plugin {plugin} failed; {so}, please report it");
                (refusal, Some(format!("panicked: {text}")))
            }
            Fault::Busy => (String::new(), Some("called while it is being called".to_owned())),
        };
        if let Some(text) = report {
            let topic = self.topic_of(frame);
            self.log(Level::Error, format!("{plugin}: {topic}: job {}: {text}", frame.job));
        }
        if frame.topic.on_failure() == OnFailure::Reject {
            frame.stop();
            let general = || format!("rejected by job-manager plugin '{plugin}'");
            frame.refusal = Some(if refusal.is_empty() { general() } else { refusal });
        }
    }

    /// The topic with the member that was called.
    fn topic_of(&self, frame: &Frame) -> String {
        let member = match &frame.given {
            Given::Cause(Cause::Event(entry)) => &*entry.name,
            Given::Dependency(dependency) => &dependency.scheme,
            Given::UpdateRequest(request) => &request.key,
            _ => return frame.topic.name().to_owned(),
        };
        frame.topic.name().replace('*', member)
    }

    /// What a topic comes to without the handler of a faulted plugin.
    fn without(&mut self, bound: &Bound, frame: &mut Frame) {
        if frame.topic.on_failure() == OnFailure::Reject && !bound.watches() {
            frame.progress.called += 1;
            frame.stop();
            let so = match self.is_accepted(frame.job) {
                true => "what it decides about is refused",
                false => "no job is accepted",
            };
            let plugin = bound.instance().name();
            frame.refusal = Some(format!(
                "plugin {plugin} has failed repeatedly: {so} until an administrator reloads it"
            ));
        } else if frame.topic == TopicId::JobStatePriority && !bound.watches() {
            frame.progress.outcome.merge(Outcome::priority(Priority::Unavailable));
        }
    }

    fn end_frame(&mut self, frame: Frame) {
        match frame.then {
            Then::Notify => {
                if let Some(text) = frame.refusal {
                    // `job.create` of a job that was accepted long ago.
                    let (topic, id) = (frame.topic.name(), frame.job);
                    self.log(Level::Error, format!("{topic}: job {id}: refused: {text}"));
                }
                self.take_outcome(frame.topic, frame.job, frame.progress.outcome);
            }
            Then::Introduce => {
                if let Some(text) = &frame.refusal {
                    let (topic, id) = (self.topic_of(&frame), frame.job);
                    self.log(Level::Error, format!("{topic}: job {id}: refused: {text}"));
                }
            }
            Then::Gate(step) => self.gate_ended(frame, step),
            Then::Recheck => self.recheck_ended(&frame),
            Then::PriorityGet => self.priority_got(&frame),
            Then::Update => self.update_ended(frame),
        }
    }

    /// Does what all handlers of a topic decided.
    pub(super) fn take_outcome(&mut self, topic: TopicId, id: JobId, outcome: Outcome) {
        let priority = outcome.priority;
        let decisions = outcome.decisions();
        if let Some(notes) = decisions.annotations {
            // What is noted of a job that is just made known comes with its first publication.
            self.annotate(id, &notes, topic != TopicId::JobNew);
        }
        if let Some(resources) = decisions.resources {
            self.force_resources(id, resources);
        }
        self.set_priority(id, priority);
    }

    /// Merges annotations into the job's, and shows them to those who watch its events. They are not
    /// logged.
    pub(super) fn annotate(&mut self, id: JobId, notes: &Map<String, Value>, publish: bool) {
        let Some(record) = self.jobs.get_mut(&id) else { return };
        super::annotations::merge(&mut record.job.annotations, notes);
        if publish {
            let whole = &*record.job.annotations;
            let whole = if whole.is_empty() { Value::Null } else { whole.clone().into() };
            self.post(id, super::events::annotations(self.now, whole));
        }
    }

    /// Sets a job's priority, as far as its state and urgency let it.
    pub(super) fn set_priority(&mut self, id: JobId, priority: Priority) {
        let Priority::Set(asked) = priority else {
            return;
        };
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let job = &record.job;
        // Urgencies that override every plugin.
        let value = job.urgency.forced_priority().unwrap_or(asked);
        let changed = job.priority != Some(value) || record.is_queued("priority");
        match job.state {
            State::Priority => self.post(id, super::events::priority(self.now, value)),
            State::Sched if changed => self.post(id, super::events::priority(self.now, value)),
            _ => {}
        }
    }

    fn priority_got(&mut self, frame: &Frame) {
        let state = self.seen(frame.job).map(Job::state);
        match frame.progress.outcome.priority {
            Priority::Set(_) => self.set_priority(frame.job, frame.progress.outcome.priority),
            Priority::Unavailable if state == Some(State::Sched) => {
                let (topic, id) = (frame.topic.name(), frame.job);
                let text = format!("{topic}: job {id} lost its priority; it keeps the old one");
                self.log(Level::Error, text);
            }
            _ => {}
        }
    }
}
