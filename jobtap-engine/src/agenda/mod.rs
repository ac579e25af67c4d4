//! What the engine still has to do for the current input, as an explicit stack.
//!
//! Work is done depth first: what a handler asked for is done before the next handler is called, and
//! an event posted to another job is applied before the poster goes on. This is not the call stack
//! but a value, so that a chain of a hundred thousand jobs that depend on each other cannot
//! overflow it, and so that a [`Frame`] can be taken off and suspended.
//!
//! This module only has the types. [`Engine`](super::Engine) routes each piece of work to the part
//! that carries it out.

mod attributions;
mod chain;
mod frame;
mod update;

use std::collections::VecDeque;

pub(super) use attributions::Attributions;
pub(super) use chain::{Chain, ChainPurpose};
pub(super) use frame::{Cause, Frame, PendingDispatch, Progress, Purpose, Subject};
pub(super) use update::{JobspecUpdate, UpdateStage};

use crate::api::ExecEvent;
use crate::eventlog::EventEntry;
use crate::host::{Command, PluginKey, RequestKey};
use crate::job::JobId;

/// One piece of work.
#[derive(Debug)]
pub(super) enum Work {
    /// Apply the next event that is posted to the job.
    ApplyNextEvent(JobId),
    /// Take a job back that was handed to the executor ahead of its turn: an event was posted to it.
    Recall(JobId),
    /// Handle reports about jobs that the executor has begun ahead of their turn.
    Reports(Vec<ExecEvent>),
    /// Call the handlers of a topic that reports something that has happened to a job.
    Notify(PendingDispatch),
    /// Call the next handlers of a frame.
    Frame(Box<Frame>),
    /// Call the next handlers of a request in Slurm's terms.
    Chain(RequestKey),
    /// Carry out the next command of a callback.
    Commands(Box<Commands>),
    /// Do what the manager itself does for a job in its present state.
    Act(JobId),
    /// Go on with a submission.
    Submission(JobId, SubmissionStep),
    /// Resume a restored job.
    Resume(JobId),
    /// Handle the orphans of a restored job: prologs and epilogs that no loaded plugin has taken
    /// over.
    Orphans(JobId, OrphanStep),
    /// Remove the record of a job that was rejected or purged.
    RemoveRecord(JobId),
    /// Post the event to each of these jobs that is still active when its turn comes.
    PostToEach(VecDeque<JobId>, Box<EventEntry>),
    /// Ask all plugins for the priority of each of these jobs.
    AskPriorities(VecDeque<JobId>),
    /// Close everything that a newly faulted plugin has open.
    CloseFaulted(PluginKey),
    /// Free the resources of a job that a plugin retained before the restart, unless the plugin has
    /// asked for them again.
    FreeUnconfirmed(PluginKey, JobId),
    /// Introduce these active jobs to a plugin that has just been loaded.
    Introduce(PluginKey, VecDeque<JobId>),
    /// Introduce these inactive jobs to a plugin that has just been loaded.
    IntroduceInactive(PluginKey, VecDeque<JobId>),
}

/// The steps of a submission, each named after what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubmissionStep {
    /// `job.create` is next.
    Create,
    /// `job.validate` is next.
    Validate,
    /// `job.dependency.*` for the dependency at this index is next.
    Dependency(usize),
    /// All gates have passed; `job.new` is next.
    New,
    /// `job.new` has been called; the job is accepted now.
    Accept,
}

/// The two passes over the orphans after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrphanStep {
    /// Handlers declared with `on_restart = rerun` begin their work again.
    Rerun,
    /// Those that still have no plugin have failed.
    Fail,
}

/// A command with the plugin that gave it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) plugin: PluginKey,
    pub(super) command: Command,
}

/// The commands of one callback that are still to be carried out, in order.
#[derive(Debug)]
pub(super) struct Commands {
    /// Where they come from, for messages: a topic, or another kind of callback.
    pub(super) origin: &'static str,
    pub(super) queue: VecDeque<Queued>,
}

/// The origin of the commands of a service.
pub(super) const SERVICE: &str = "service";

/// The stack of work.
#[derive(Debug, Default)]
pub(super) struct Agenda(Vec<Work>);

impl Agenda {
    /// Puts a piece of work on top, so that it is done next.
    pub(super) fn push(&mut self, work: Work) {
        self.0.push(work);
    }

    /// Takes the next piece of work.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Work> {
        self.0.pop()
    }

    /// Whether a crash may leave out all that is to be done, since nothing that is durable leads to it: there is nothing,
    /// or what a service still asks for, whose request has no response yet.
    pub(super) fn is_dispensable(&self) -> bool {
        match self.0.as_slice() {
            [] => true,
            [Work::Commands(commands)] => commands.origin == SERVICE,
            _ => false,
        }
    }

    /// Puts the commands of a callback on top, if there are any.
    pub(super) fn push_commands(&mut self, origin: &'static str, commands: Vec<Queued>) {
        if !commands.is_empty() {
            self.push(Work::Commands(Box::new(Commands { origin, queue: commands.into() })));
        }
    }
}
