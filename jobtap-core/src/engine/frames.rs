//! One topic through the stack of plugins: each handler in load order, what it asked for before the
//! next one, and what all of them decided at the end.

use std::rc::Rc;
use std::sync::Arc;

use super::callback::{Callback, Queued, Subject};
use super::host::drop_updates;
use super::submit::Step;
use super::updates::Updating;
use super::work::{Commands, Work};
use super::{Engine, Level};
use crate::eventlog::EventEntry;
use crate::job::{Job, JobId, State};
use crate::jobspec::Dependency;
use crate::plugin::{
    Bound, Detail, Failure, Fault, Handlers, Outcome, PluginKey, Priority, UpdateRequest,
};
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
    pub(super) handlers: Handlers,
    /// The handler that is next.
    pub(super) next: usize,
    /// How many handlers were called that decide, and don't only watch.
    pub(super) called: usize,
    pub(super) outcome: Outcome,
    /// Plugins whose asynchronous handlers have yet to answer.
    pub(super) awaited: Vec<PluginKey>,
    /// Why a gate refused.
    pub(super) refusal: Option<String>,
    pub(super) then: Then,
}

/// What a topic has beside its job.
#[derive(Debug, Clone, Default)]
pub(super) enum Given {
    #[default]
    Nothing,
    State {
        prev: State,
        entry: Arc<EventEntry>,
    },
    Event(Arc<EventEntry>),
    Updates(Arc<EventEntry>),
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
            given: Given::Nothing,
            trial: None,
            updating: None,
            handlers: Rc::default(),
            next: 0,
            called: 0,
            outcome: Outcome::default(),
            awaited: Vec::new(),
            refusal: None,
            then,
        }
    }

    fn detail(&self) -> Detail<'_> {
        match &self.given {
            // A state topic without an event: the job is introduced to a plugin.
            Given::Nothing => Detail::None,
            Given::State { prev, entry } => Detail::State { prev: Some(*prev), entry: Some(entry) },
            Given::Event(entry) => Detail::Event(entry),
            Given::Updates(entry) => match &entry.context {
                Some(updates) => Detail::Updates(updates),
                None => Detail::None,
            },
            Given::Dependency(dependency) => Detail::Dependency(dependency),
            Given::UpdateRequest(request) => Detail::UpdateRequest(request),
        }
    }

    /// No handler more is called.
    fn stop(&mut self) {
        self.next = self.handlers.len();
    }
}

impl Engine {
    /// Stacks a frame for a topic, if a plugin handles it or something waits for its end.
    pub(super) fn stack_frame(&mut self, frame: Frame) {
        let Some(handlers) = self.plugins.stack.handlers(frame.topic) else {
            return;
        };
        let idle = matches!(frame.then, Then::Notify | Then::Introduce);
        if !handlers.is_empty() || !idle {
            let handlers = Rc::clone(handlers);
            self.work.push(Work::Frame(Box::new(Frame { handlers, ..frame })));
        }
    }

    /// Stacks a frame for these handlers, if there are any.
    pub(super) fn stack_frame_of(&mut self, frame: Frame, handlers: Handlers) {
        if !handlers.is_empty() {
            self.work.push(Work::Frame(Box::new(Frame { handlers, ..frame })));
        }
    }

    /// Calls the frame's handlers until one asks for something, or the frame ends.
    pub(super) fn step(&mut self, mut frame: Box<Frame>) {
        let handlers = Rc::clone(&frame.handlers);
        while let Some(bound) = handlers.get(frame.next) {
            frame.next += 1;
            if bound.instance().is_faulted() {
                self.without(bound, &mut frame);
                continue;
            }
            if bound.instance().is_removed() {
                continue;
            }
            let Some(job) = frame.trial.as_deref().or_else(|| self.seen(frame.job)) else {
                return;
            };
            let subject = Subject { topic: frame.topic, job: Some(job), detail: frame.detail() };
            let called = self.callback(bound, subject);
            frame.called += usize::from(!bound.watches());
            let commands = self.called(&mut frame, bound, called);
            if !commands.is_empty() {
                let topic = frame.topic.name();
                self.work.push(Work::Frame(frame));
                return self.stack_commands(topic, commands);
            }
        }
        self.end_frame(*frame);
    }

    pub(super) fn stack_commands(&mut self, topic: &'static str, commands: Vec<Queued>) {
        if !commands.is_empty() {
            let queue = commands.into();
            self.work.push(Work::Commands(Box::new(Commands { topic, queue })));
        }
    }

    /// Takes over how a callback went; gives what it asked for.
    fn called(&mut self, frame: &mut Frame, bound: &Bound, called: Callback) -> Vec<Queued> {
        let Callback { result, mut commands, panicked, milliseconds } = called;
        if milliseconds > self.plugins.budget {
            self.over_budget(bound, Some(frame.job), milliseconds);
        }
        match result {
            Ok(outcome) => {
                if outcome.is_deferred() {
                    frame.awaited.push(bound.plugin());
                }
                frame.outcome.merge(outcome);
            }
            Err(fault) => {
                drop_updates(&mut commands, 0);
                self.fault(frame, bound, fault);
            }
        }
        self.note_panics(panicked);
        commands
    }

    #[cold]
    pub(super) fn over_budget(&mut self, bound: &Bound, job: Option<JobId>, milliseconds: u64) {
        let (name, topic) = (bound.instance().name(), bound.entry().full_name());
        let job = job.map(|id| format!(": job {id}")).unwrap_or_default();
        let (took, budget) = (milliseconds as f64 / 1e3, self.plugins.budget as f64 / 1e3);
        let text =
            format!("{name}: {topic}{job}: took {took} s, more than its budget of {budget} s");
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
                let refusal =
                    format!("plugin {plugin} failed; the job was not accepted, please report it");
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
            Given::Event(entry) => &*entry.name,
            Given::Dependency(dependency) => &dependency.scheme,
            Given::UpdateRequest(request) => &request.key,
            _ => return frame.topic.name().to_owned(),
        };
        frame.topic.name().replace('*', member)
    }

    /// What a topic comes to without the handler of a faulted plugin.
    fn without(&mut self, bound: &Bound, frame: &mut Frame) {
        if frame.topic.on_failure() == OnFailure::Reject && !bound.watches() {
            frame.called += 1;
            frame.stop();
            frame.refusal = Some(format!(
                "plugin {} has failed repeatedly: no job is accepted until an administrator \
                 reloads it",
                bound.instance().name()
            ));
        } else if frame.topic == TopicId::JobStatePriority && !bound.watches() {
            frame.outcome.merge(Outcome::priority(Priority::Unavailable));
        }
    }

    fn end_frame(&mut self, frame: Frame) {
        match frame.then {
            Then::Notify => self.take_outcome(frame),
            Then::Introduce => {}
            Then::Gate(step) => self.gate_ended(frame, step),
            Then::Recheck => self.recheck_ended(&frame),
            Then::PriorityGet => self.priority_got(&frame),
            Then::Update => self.update_ended(frame),
        }
    }

    fn take_outcome(&mut self, frame: Frame) {
        let id = frame.job;
        if let Some(text) = frame.refusal {
            // `job.create` of a job that was accepted long ago.
            self.log(Level::Error, format!("{}: job {id}: refused: {text}", frame.topic.name()));
        }
        let priority = frame.outcome.priority;
        let decisions = frame.outcome.decisions();
        if let Some(notes) = decisions.annotations
            && let Some(record) = self.jobs.get_mut(&id)
        {
            super::annotations::merge(&mut record.job.annotations, &notes.into_map());
        }
        if let Some(resources) = decisions.resources {
            self.force_resources(id, resources);
        }
        self.set_priority(id, priority);
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
        match frame.outcome.priority {
            Priority::Set(_) => self.set_priority(frame.job, frame.outcome.priority),
            Priority::Unavailable if state == Some(State::Sched) => {
                let (topic, id) = (frame.topic.name(), frame.job);
                let text = format!("{topic}: job {id} lost its priority; it keeps the old one");
                self.log(Level::Error, text);
            }
            _ => {}
        }
    }
}
