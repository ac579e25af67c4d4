//! What handlers ask for during one callback, before any of it is carried out.

use std::cell::RefCell;

use crate::agenda::Queued;
use crate::host::{Command, PluginKey};
use crate::job::JobId;

/// The commands of one callback: those of its handler, and those of handlers whose topics it called.
#[derive(Debug, Default)]
pub(crate) struct CommandBuffer {
    commands: RefCell<Vec<Queued>>,
    /// Plugins that panicked in a topic that another plugin called, with their messages. Boxed, since nearly every
    /// callback has none.
    panicked: RefCell<Option<Box<Panicked>>>,
    /// The jobs that show the callback what it has asked for.
    noted: RefCell<Vec<JobId>>,
}

/// The content of a buffer after the callback.
pub(crate) struct BufferContent {
    /// The commands.
    pub(crate) commands: Vec<Queued>,
    /// The plugins that panicked in a topic that another plugin called.
    pub(crate) panicked: Panicked,
    /// The jobs that show the callback what it has asked for.
    pub(crate) noted: Vec<JobId>,
}

/// Plugins that panicked, with their messages.
pub(crate) type Panicked = Vec<(PluginKey, String)>;

impl CommandBuffer {
    /// Whether nothing was asked for, and no other plugin has panicked.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.borrow().is_empty() && self.panicked.borrow().is_none()
    }

    /// Queues a command.
    pub(crate) fn push(&self, plugin: PluginKey, command: Command) {
        self.commands.borrow_mut().push(Queued { plugin, command });
    }

    /// Adds a job that shows the callback what it has asked for.
    pub(crate) fn add_noted(&self, id: JobId) {
        self.noted.borrow_mut().push(id);
    }

    /// The jobs that show the callback what it has asked for.
    pub(crate) fn noted(&self) -> Vec<JobId> {
        self.noted.borrow().clone()
    }

    /// Notes the panic of a plugin whose topic another one called.
    pub(crate) fn push_panic(&self, plugin: PluginKey, message: String) {
        self.panicked.borrow_mut().get_or_insert_default().push((plugin, message));
    }

    /// Looks through the commands of one plugin, the newest first.
    pub(crate) fn find_last<R>(
        &self,
        plugin: PluginKey,
        look: impl Fn(&Command) -> Option<R>,
    ) -> Option<R> {
        let commands = self.commands.borrow();
        let mut own = commands.iter().rev().filter(|queued| queued.plugin == plugin);
        own.find_map(|queued| look(&queued.command))
    }

    /// Returns a mark, the number of commands so far, to undo what comes after.
    pub(crate) fn mark(&self) -> usize {
        self.commands.borrow().len()
    }

    /// Drops the commands after a mark.
    pub(crate) fn truncate(&self, mark: usize) {
        self.commands.borrow_mut().truncate(mark);
    }

    /// Drops the jobspec updates after a mark: half of a change is worse than none, so that a handler
    /// that fails changes nothing. Its other commands are kept.
    pub(crate) fn drop_updates(&self, mark: usize) {
        let mut commands = self.commands.borrow_mut();
        let at = mark.min(commands.len());
        let tail = commands.split_off(at);
        let is_update = |queued: &Queued| matches!(queued.command, Command::UpdateJobspec { .. });
        commands.extend(tail.into_iter().filter(|queued| !is_update(queued)));
    }

    /// Returns what was asked for.
    pub(crate) fn into_content(self) -> BufferContent {
        let panicked = self.panicked.into_inner().map_or_else(Vec::new, |panicked| *panicked);
        BufferContent {
            commands: self.commands.into_inner(),
            panicked,
            noted: self.noted.into_inner(),
        }
    }
}
