//! The stack of work, and what happens when an event is posted.
//!
//! Events of a job are worked on one at a time: applied, logged, shown to subscribers, then the
//! plugins of the state that was entered, then the manager's own action for that state. An event
//! posted to the job that is being worked on waits for its turn; one posted to another job is
//! worked on before the poster goes on.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

use super::api::{Effect, Log, Write};
use super::callback::Queued;
use super::events::{self, NOT_LOGGED};
use super::frames::{Frame, Given, Then};
use super::notices::{Cause, Notice};
use super::record::Applied;
use super::restart::Orphans;
use super::submit::Step;
use super::{Engine, Level};
use crate::eventlog::EventEntry;
use crate::host::PluginKey;
use crate::job::{JobId, State, Timestamp};
use crate::topic::TopicId;

/// The resolution at which events are shown, in seconds.
const MICROSECOND: f64 = 1e-6;

/// One piece of work; the top of the stack is next.
#[derive(Debug)]
pub(super) enum Work {
    /// Take the next event of a job's queue.
    Drain(JobId),
    /// Tell the plugins of something that happened to a job.
    Notice(Notice),
    /// Call the next handler of a topic.
    Frame(Box<Frame>),
    /// Do the next thing that a handler asked for.
    Commands(Box<Commands>),
    /// Do what the job's state asks for.
    Action(JobId),
    /// Go on with a submission.
    Submit(JobId, Step),
    /// Bring a restored job back to life.
    Resume(JobId),
    /// See what a restored job has open that nobody has.
    Orphans(JobId, Orphans),
    /// Show these inactive jobs to the plugins.
    Inactive(VecDeque<JobId>),
    /// The last of a job that was rejected, or purged.
    Forget(JobId),
    /// Ask for the priority of each of these jobs.
    Priorities(VecDeque<JobId>),
    /// See whether a plugin still wants what it kept of a job before the restart.
    Unwanted(PluginKey, JobId),
    /// Show these jobs to a plugin that was just loaded.
    Introduce(PluginKey, VecDeque<JobId>),
    /// Show these inactive jobs to it.
    IntroduceInactive(PluginKey, VecDeque<JobId>),
}

/// What one callback asked for, in order.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) topic: &'static str,
    pub(super) queue: VecDeque<Queued>,
}

impl Engine {
    /// Works until the stack is empty.
    pub(super) fn run(&mut self) {
        while let Some(work) = self.work.pop() {
            match work {
                Work::Drain(id) => self.drain(id),
                Work::Notice(notice) => self.notice(notice),
                Work::Frame(frame) => self.step(frame),
                Work::Commands(commands) => self.next_command(commands),
                Work::Action(id) => self.action(id),
                Work::Submit(id, step) => self.submit_step(id, step),
                Work::Resume(id) => self.resume(id),
                Work::Orphans(id, step) => self.orphans(id, step),
                Work::Inactive(jobs) => self.next_inactive(jobs),
                Work::Forget(id) => self.forget(id),
                Work::Priorities(jobs) => self.next_priority(jobs),
                Work::Unwanted(plugin, job) => self.unwanted(plugin, job),
                Work::Introduce(plugin, jobs) => self.next_introduction(plugin, jobs),
                Work::IntroduceInactive(plugin, jobs) => self.next_past(plugin, jobs),
            }
        }
    }

    /// Posts an event to a job. One that is over takes no more.
    pub(super) fn post(&mut self, id: JobId, entry: EventEntry) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        if record.job.state == State::Inactive {
            return;
        }
        record.queue.push_back(entry);
        if !record.busy {
            record.busy = true;
            self.work.push(Work::Drain(id));
        }
    }

    fn drain(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let release = || take(&mut record.release_due).then(|| events::release(self.now));
        let Some(mut entry) = record.queue.pop_front().or_else(release) else {
            record.busy = false;
            return self.visit(id);
        };
        entry.timestamp = in_order(entry.timestamp, &mut self.last_event);
        self.work.push(Work::Drain(id));
        if record.is_void(&entry.name) {
            let text = format!("{id}: dropped {}: the job has gone on", entry.name);
            return self.log(Level::Debug, text);
        }
        let entry = Arc::new(entry);
        match record.apply(&entry) {
            Ok(applied) => self.applied(id, entry, applied),
            Err(error) => {
                // Only this one: what waits behind it, such as `depend`, is posted once.
                self.log(Level::Error, format!("{id}: {error}"));
                self.work.push(Work::Action(id));
            }
        }
    }

    /// Logs an applied event and stacks what follows from it, last first.
    fn applied(&mut self, id: JobId, entry: Arc<EventEntry>, applied: Applied) {
        if entry.name == NOT_LOGGED {
            let accepted = self.jobs.get(&id).is_some_and(|record| record.unaccepted.is_none());
            if accepted {
                self.effects.after.push(Effect::Announce { id, entry: Arc::clone(&entry) });
            }
            return self.show_subscribers(id, &entry);
        }
        self.write_event(id, Log::Main, &entry);
        self.tally_event(id, &entry, applied.left);
        self.work.push(Work::Action(id));
        if let Some(left) = applied.left {
            self.enter_state(id, left, &entry);
        }
        if applied.left.is_some() || applied.ended {
            self.end_void_work(id, applied.ended);
        }
        if entry.name == "release" {
            self.take_back(id, &entry);
        }
        if entry.name == "resource-update" {
            self.rearm_expiry(id);
        }
        if entry.name == "jobspec-update" {
            self.notify(TopicId::JobUpdate, id, Cause::Updates(Arc::clone(&entry)));
        }
        if applied.ended || entry.name == "start" {
            self.execution_follows(id, &entry, applied.ended);
        }
        self.show_subscribers(id, &entry);
    }

    /// Appends to a log of the job: to the store, and to those who watch.
    pub(super) fn write_event(&mut self, id: JobId, log: Log, entry: &Arc<EventEntry>) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let lines = match log {
            Log::Main => &mut record.lines,
            Log::Exec => &mut record.exec_lines,
        };
        let seq = *lines;
        *lines += 1;
        let write = Write::Append { id, log, seq, line: entry.encode() };
        let publish = Effect::Publish { id, log, seq, entry: Arc::clone(entry) };
        match &mut record.unaccepted {
            Some(held) => {
                held.writes.push(write);
                held.published.push(publish);
            }
            None => {
                self.effects.writes.push(write);
                self.effects.after.push(publish);
            }
        }
    }

    /// Stores a value of the job.
    pub(super) fn put(&mut self, id: JobId, key: impl Into<String>, value: String) {
        let write = Write::Put { id, key: key.into(), value };
        match self.jobs.get_mut(&id).map(|record| record.unaccepted.as_mut()) {
            Some(Some(held)) => held.writes.push(write),
            Some(None) => self.effects.writes.push(write),
            // Rejected: nothing of it is kept.
            None => {}
        }
    }

    fn enter_state(&mut self, id: JobId, left: State, entry: &Arc<EventEntry>) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let topic = state_topic(record.job.state);
        self.notify(topic, id, Cause::State(left, Arc::clone(entry)));
    }

    fn show_subscribers(&mut self, id: JobId, entry: &Arc<EventEntry>) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        if record.subscribers.is_empty() {
            return;
        }
        let subscribed = |plugin: PluginKey| record.subscribers.contains(&plugin);
        let handlers = self.plugins.stack.members(TopicId::JobEvent, &entry.name, subscribed);
        let given = Given::Cause(Cause::Event(Arc::clone(entry)));
        let frame = Frame { given, ..Frame::new(TopicId::JobEvent, id, Then::Notify) };
        self.stack_frame_of(frame, handlers);
    }
}

/// The event's own time, or the next microsecond after the newest event.
fn in_order(time: Timestamp, newest: &mut Timestamp) -> Timestamp {
    let next = *newest + MICROSECOND;
    *newest = if time > next { time } else { next };
    *newest
}

/// The topic that is called when a state is entered.
pub(super) fn state_topic(state: State) -> TopicId {
    match state {
        // NEW is entered before there is anything to call.
        State::New => TopicId::Own,
        State::Depend => TopicId::JobStateDepend,
        State::Priority => TopicId::JobStatePriority,
        State::Sched => TopicId::JobStateSched,
        State::Run => TopicId::JobStateRun,
        State::Cleanup => TopicId::JobStateCleanup,
        State::Inactive => TopicId::JobStateInactive,
    }
}
