//! One callback: a handler called with what the engine knows, and everything that it asked for.

use std::any::Any;
use std::cell::{Cell, RefCell};

use super::Engine;
use super::host::FrameHost;
use crate::host::{Args, Bound, Command, Detail, Fault, Instance, Outcome, PluginKey};
use crate::job::{Job, JobId};
use crate::topic::TopicId;

/// Something that a plugin asked for.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) plugin: PluginKey,
    pub(super) command: Command,
}

/// What was asked for in one callback, by its handler and by those whose topics it called.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) commands: RefCell<Vec<Queued>>,
    /// Plugins that panicked in a topic that another one called, with what they said. Boxed, since
    /// nearly every callback does without.
    pub(super) panicked: RefCell<Option<Box<Panicked>>>,
}

/// Plugins that panicked, with what they said.
pub(super) type Panicked = Vec<(PluginKey, String)>;

impl Asked {
    /// Nothing was asked for, and nobody panicked.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.commands.borrow().is_empty() && self.panicked.borrow().is_none()
    }

    /// The commands, and who panicked.
    pub(super) fn into_parts(self) -> (Vec<Queued>, Panicked) {
        let panicked = self.panicked.into_inner().map_or_else(Vec::new, |panicked| *panicked);
        (self.commands.into_inner(), panicked)
    }
}

/// How one callback went.
pub(super) struct Callback {
    pub(super) result: Result<Outcome, Fault>,
    pub(super) commands: Vec<Queued>,
    pub(super) panicked: Panicked,
    pub(super) milliseconds: u64,
}

/// What a handler is called with.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) topic: TopicId,
    pub(super) job: Option<&'a Job>,
    pub(super) detail: Detail<'a>,
}

impl Engine {
    /// Calls a handler.
    pub(super) fn callback(&self, bound: &Bound, subject: Subject<'_>) -> Callback {
        let asked = Asked::default();
        let host = FrameHost {
            engine: self,
            instance: Cell::new(bound.instance()),
            current: subject.job.map(Job::id),
            asked: &asked,
        };
        let Subject { topic, job, detail } = subject;
        let args = Args { host: &host, topic, job, detail };
        let (result, milliseconds) = bound.call(&args, &self.plugins.ticks);
        let result = result.map_err(|fault| *fault);
        let (mut commands, panicked) = asked.into_parts();
        if matches!(result, Err(Fault::Panic(_))) {
            commands.clear();
        }
        Callback { result, commands, panicked, milliseconds }
    }

    /// Calls into a plugin outside of any topic: a timer, or work that came back. `None` when it is
    /// being called.
    pub(super) fn call_instance(
        &self,
        instance: &Instance,
        call: impl for<'a> FnOnce(&mut dyn Any, &'a Args<'a>),
    ) -> Option<Callback> {
        let asked = Asked::default();
        let host =
            FrameHost { engine: self, instance: Cell::new(instance), current: None, asked: &asked };
        let args = Args::new(&host, TopicId::Own);
        let ticks = &self.plugins.ticks;
        let start = ticks.coarse();
        let result = instance.with(|plugin| call(plugin, &args))?;
        let milliseconds = ticks.coarse().saturating_sub(start);
        let (mut commands, panicked) = asked.into_parts();
        if result.is_err() {
            commands.clear();
        }
        let result = result.map(|()| Outcome::default()).map_err(Fault::Panic);
        Some(Callback { result, commands, panicked, milliseconds })
    }

    /// The job as a callback about it sees it.
    pub(super) fn seen(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|record| &record.job)
    }
}
