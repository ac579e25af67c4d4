//! One topic through the stack of plugins: each handler in load order, what it asked for before the
//! next one, and what all of them decided at the end.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::host::FrameHost;
use super::plugins::Bound;
use super::submit::Step;
use super::work::{Commands, Frame, Work};
use super::{Engine, Level};
use crate::job::{JobId, State, Urgency};
use crate::plugin::{Args, Command, Failure, Outcome, Priority, panic_text};
use crate::topic::{OnFailure, TOPICS};

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
}

/// How a callback ended.
struct Called {
    result: Result<Outcome, Fault>,
    commands: Vec<Command>,
}

/// How a handler failed.
enum Fault {
    Failure(Failure),
    Panic(String),
}

impl Engine {
    /// Stacks a frame for a topic, if a plugin handles it or something waits for its end.
    pub(super) fn stack_frame(&mut self, mut frame: Frame) {
        frame.handlers = self.plugins.handlers(frame.topic).iter().cloned().collect();
        if !frame.handlers.is_empty() || !matches!(frame.then, Then::Notify | Then::Introduce) {
            self.work.push(Work::Frame(Box::new(frame)));
        }
    }

    /// Calls the frame's next handler, or ends the frame.
    pub(super) fn step(&mut self, mut frame: Box<Frame>) {
        let Some(bound) = frame.handlers.pop_front() else {
            self.end_frame(*frame);
            return;
        };
        if self.is_faulted(bound.plugin) {
            self.without(&bound, &mut frame);
            self.work.push(Work::Frame(frame));
            return;
        }
        let Some(mut called) = self.call(&bound, &frame) else {
            // Unloaded since the frame was stacked.
            self.work.push(Work::Frame(frame));
            return;
        };
        frame.called += 1;
        match called.result {
            Ok(outcome) => {
                if outcome.deferred {
                    frame.awaited.push(bound.plugin);
                }
                frame.outcome.merge(outcome);
            }
            Err(fault) => self.fault(&mut frame, &bound, fault, &mut called.commands),
        }
        let topic = frame.topic;
        self.work.push(Work::Frame(frame));
        self.stack_commands(&bound, topic, called.commands);
    }

    fn stack_commands(&mut self, bound: &Bound, topic: &'static str, commands: Vec<Command>) {
        if !commands.is_empty() {
            let queue = commands.into();
            let commands = Commands {
                plugin: bound.plugin,
                topic,
                queue,
            };
            self.work.push(Work::Commands(Box::new(commands)));
        }
    }

    /// One callback; `None` when the plugin is gone.
    fn call(&self, bound: &Bound, frame: &Frame) -> Option<Called> {
        let plugin = self.plugins.get(bound.plugin)?;
        let record = self.jobs.get(&frame.job)?;
        let host = FrameHost {
            engine: self,
            plugin,
            current: Some(frame.job),
            commands: RefCell::default(),
        };
        let args = Args {
            job: Some(&record.job),
            prev_state: frame.prev_state,
            entry: frame.entry.as_deref(),
            dependency: frame.dependency.as_ref(),
            ..Args::new(&host)
        };
        let mut instance = plugin.instance.try_borrow_mut().ok()?;
        let result = catch_unwind(AssertUnwindSafe(|| (bound.call)(&mut **instance, args)));
        let commands = host.commands.into_inner();
        Some(match result {
            Ok(Ok(outcome)) => Called {
                result: Ok(outcome),
                commands,
            },
            Ok(Err(failure)) => Called {
                result: Err(Fault::Failure(failure)),
                commands,
            },
            Err(panic) => {
                let text = panic_text(&*panic);
                Called {
                    result: Err(Fault::Panic(text)),
                    commands: Vec::new(),
                }
            }
        })
    }

    /// A handler failed: a gate closes, elsewhere the job goes on and the log says so.
    fn fault(
        &mut self,
        frame: &mut Frame,
        bound: &Bound,
        fault: Fault,
        commands: &mut Vec<Command>,
    ) {
        let plugin = Arc::clone(&bound.name);
        let topic = frame.topic.replace('*', bound.key);
        let panicked = matches!(fault, Fault::Panic(_));
        // Half of a change is none.
        commands.retain(|command| !matches!(command, Command::UpdateJobspec { .. }));
        let (refusal, report) = match fault {
            Fault::Failure(Failure::Reject(text)) => (text, None),
            Fault::Failure(failure) => {
                let text = failure.text().to_owned();
                (text.clone(), Some((Level::Error, text)))
            }
            Fault::Panic(text) => (
                format!("plugin {plugin} failed; the job was not accepted, please report it"),
                Some((Level::Error, format!("panicked: {text}"))),
            ),
        };
        if let Some((level, text)) = report {
            self.log(
                level,
                format!("{plugin}: {topic}: job {}: {text}", frame.job),
            );
        }
        if panicked {
            self.note_panic(bound.plugin);
        }
        if on_failure(frame.topic) == OnFailure::Reject {
            frame.handlers.clear();
            let general = || format!("rejected by job-manager plugin '{plugin}'");
            frame.refusal = Some(if refusal.is_empty() {
                general()
            } else {
                refusal
            });
        }
    }

    fn end_frame(&mut self, frame: Frame) {
        match frame.then {
            Then::Notify => self.take_outcome(frame.job, frame.outcome),
            Then::Introduce => {}
            Then::Gate(step) => self.gate_ended(frame, step),
            Then::Recheck => self.recheck_ended(&frame),
            Then::PriorityGet => self.priority_got(&frame),
        }
    }

    fn take_outcome(&mut self, id: JobId, outcome: Outcome) {
        if let Some(notes) = outcome.annotations
            && let Some(record) = self.jobs.get_mut(&id)
        {
            super::annotations::merge(&mut record.job.annotations, &notes.into_map());
        }
        self.set_priority(id, outcome.priority);
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
        let value = forced(job.urgency).unwrap_or(asked);
        let changed = job.priority != Some(value) || record.is_queued("priority");
        match job.state {
            State::Priority => self.post(id, super::events::priority(self.now, value)),
            State::Sched if changed => self.post(id, super::events::priority(self.now, value)),
            _ => {}
        }
    }

    fn priority_got(&mut self, frame: &Frame) {
        let state = self.jobs.get(&frame.job).map(|record| record.job.state);
        match frame.outcome.priority {
            Priority::Set(_) => self.set_priority(frame.job, frame.outcome.priority),
            Priority::Unavailable if state == Some(State::Sched) => self.log(
                Level::Error,
                format!(
                    "{}: job {} lost its priority; it keeps the old one",
                    frame.topic, frame.job
                ),
            ),
            _ => {}
        }
    }
}

/// Urgencies that override every plugin.
fn forced(urgency: Urgency) -> Option<u32> {
    urgency.forced_priority()
}

/// What a failing handler does to the job.
pub(super) fn on_failure(topic: &str) -> OnFailure {
    TOPICS
        .iter()
        .find(|info| info.name == topic)
        .map_or(OnFailure::Log, |info| info.on_failure)
}
