//! The short way of a topic through the stack of plugins.
//!
//! Nearly every callback only looks, or decides a priority. So a topic of which something happened to
//! a job goes through all its handlers in one loop, which is left at the first handler that asks for
//! something, fails, or answers later: a [`Frame`] on the stack of work goes on from there.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::Engine;
use super::callback::Asked;
use super::frames::{Frame, Given, Then};
use super::host::FrameHost;
use super::work::Work;
use crate::eventlog::EventEntry;
use crate::host::{Args, Bound, Detail, Fault, Handlers, Outcome};
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// Something happened to a job: what the plugins are told.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) topic: TopicId,
    pub(super) job: JobId,
    pub(super) cause: Cause,
}

/// The event behind a topic.
#[derive(Debug, Clone, Default)]
pub(super) enum Cause {
    /// None: the job is introduced, asked about, or over.
    #[default]
    None,
    /// It moved the job from this state.
    State(State, Arc<EventEntry>),
    /// The topic is the event.
    Event(Arc<EventEntry>),
    /// It changed the jobspec.
    Updates(Arc<EventEntry>),
}

impl Cause {
    pub(super) fn detail(&self) -> Detail<'_> {
        match self {
            Cause::None => Detail::None,
            Cause::State(prev, entry) => Detail::State { prev: Some(*prev), entry: Some(entry) },
            Cause::Event(entry) => Detail::Event(entry),
            Cause::Updates(entry) => entry.context.as_ref().map_or(Detail::None, Detail::Updates),
        }
    }
}

/// How far a topic is on its way, and what was decided.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The handler that is next.
    pub(super) next: usize,
    /// How many handlers were called that decide, and don't only watch.
    pub(super) called: usize,
    pub(super) outcome: Outcome,
}

/// Why the loop was left.
#[derive(Debug)]
pub(super) enum Stop {
    /// All handlers were called.
    End,
    /// The handler asked for something.
    Asked,
    /// It failed.
    Fault(Box<Fault>),
    /// It will answer later.
    Deferred,
    /// Its plugin is faulted, and it was not called.
    Out,
    /// It took this many milliseconds.
    Slow(u64),
}

impl Engine {
    /// Tells the plugins of something that happened to a job.
    #[inline]
    pub(super) fn notify(&mut self, topic: TopicId, job: JobId, cause: Cause) {
        if self.plugins.stack.handles(topic) {
            self.work.push(Work::Notice(Notice { topic, job, cause }));
        }
    }

    /// Calls all handlers, as long as they only look and decide.
    pub(super) fn notice(&mut self, notice: Notice) {
        // Not taken apart: it is moved only when the loop is left.
        let (topic, id) = (notice.topic, notice.job);
        let (mut progress, asked) = (Progress::default(), Asked::default());
        let (Some(handlers), Some(job)) = (self.plugins.stack.handlers(topic), self.seen(id))
        else {
            return;
        };
        let Some(host) = self.host_for(handlers, Some(id), &asked) else { return };
        let args = Args { host: &host, topic, job: Some(job), detail: notice.cause.detail() };
        let stop = self.call_handlers(handlers, &mut progress, &host, &args);
        if !matches!(stop, Stop::End) {
            let handlers = Rc::clone(handlers);
            return self.stop_short(notice, handlers, progress, stop, asked);
        }
        if !progress.outcome.is_empty() {
            self.take_outcome(topic, id, progress.outcome);
        }
    }

    /// Goes on step by step after a handler that did more than look and decide.
    #[cold]
    #[inline(never)]
    fn stop_short(
        &mut self,
        notice: Notice,
        handlers: Handlers,
        progress: Progress,
        stop: Stop,
        asked: Asked,
    ) {
        let Notice { topic, job, cause } = notice;
        let (given, handlers) = (Given::Cause(cause), Some(handlers));
        let frame = Frame { given, handlers, progress, ..Frame::new(topic, job, Then::Notify) };
        self.go_on(Box::new(frame), stop, asked);
    }

    /// What these handlers will see; none when there are none.
    #[inline]
    pub(super) fn host_for<'e>(
        &'e self,
        handlers: &'e [Bound],
        current: Option<JobId>,
        asked: &'e Asked,
    ) -> Option<FrameHost<'e>> {
        let instance = Cell::new(&**handlers.first()?.instance());
        Some(FrameHost { engine: self, instance, current, asked })
    }

    /// Calls handlers until one does more than look and decide. A panic is caught around the whole
    /// loop: the handler before `next` is the one that panicked.
    pub(super) fn call_handlers<'e>(
        &self,
        handlers: &'e [Bound],
        progress: &mut Progress,
        host: &FrameHost<'e>,
        args: &Args<'_>,
    ) -> Stop {
        let (ticks, asked) = (&self.plugins.ticks, host.asked);
        let looped = catch_unwind(AssertUnwindSafe(|| {
            while let Some(bound) = handlers.get(progress.next) {
                progress.next += 1;
                if bound.is_out() {
                    return Stop::Out;
                }
                host.instance.set(bound.instance());
                progress.called += usize::from(!bound.watches());
                let (result, milliseconds) = bound.call_uncaught(args, ticks);
                match result {
                    Ok(outcome) => {
                        let deferred = outcome.is_deferred();
                        progress.outcome.merge(outcome);
                        if deferred {
                            return Stop::Deferred;
                        }
                    }
                    Err(fault) => return Stop::Fault(fault),
                }
                if milliseconds > self.plugins.budget {
                    return Stop::Slow(milliseconds);
                }
                if !asked.is_empty() {
                    return Stop::Asked;
                }
            }
            Stop::End
        }));
        looped.unwrap_or_else(|panic| Stop::Fault(panicked(handlers, progress.next, &*panic)))
    }
}

#[cold]
fn panicked(handlers: &[Bound], next: usize, panic: &(dyn Any + Send)) -> Box<Fault> {
    match handlers.get(next.wrapping_sub(1)) {
        Some(bound) => bound.panicked(panic),
        None => Box::new(Fault::Busy),
    }
}
