//! What administrators do to queues, and what a new configuration leaves of it.

use serde_json::{Map, Value, json};

use super::error::QueueError;
use super::queues::{Entry, Queue, Queues, Scheduling};

/// The queues that a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// One of this name.
    pub name: Option<String>,
    /// All of them, if there is no name.
    pub all: bool,
}

impl Target {
    /// Every queue, whether they have names or not.
    #[must_use]
    pub const fn all() -> Self {
        Self { name: None, all: true }
    }

    /// The queue of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), all: false }
    }
}

impl Queues {
    /// Enables submission.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::AllRequired`].
    pub fn enable(&mut self, target: &Target) -> Result<(), QueueError> {
        self.change(target, |entry| entry.disabled = None)
    }

    /// Disables submission. A later reason replaces an earlier one.
    ///
    /// # Errors
    /// [`QueueError::ReasonRequired`], [`QueueError::Unknown`], [`QueueError::AllRequired`].
    pub fn disable(&mut self, target: &Target, reason: Option<&str>) -> Result<(), QueueError> {
        let reason = reason.ok_or(QueueError::ReasonRequired)?;
        self.change(target, |entry| entry.disabled = Some(reason.to_owned()))
    }

    /// Starts scheduling.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::AllRequired`].
    pub fn start(&mut self, target: &Target, checkpoint: bool) -> Result<(), QueueError> {
        self.set(target, &Scheduling { started: true, reason: None }, checkpoint)
    }

    /// Stops scheduling. Without a reason an earlier one is cleared.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::AllRequired`].
    pub fn stop(
        &mut self,
        target: &Target,
        reason: Option<&str>,
        checkpoint: bool,
    ) -> Result<(), QueueError> {
        let reason = reason.map(str::to_owned);
        self.set(target, &Scheduling { started: false, reason }, checkpoint)
    }

    /// Stops scheduling in all queues until they are started; a restart finds them as they were.
    pub fn hold(&mut self, reason: &str) {
        let scheduling = Scheduling { started: false, reason: Some(reason.to_owned()) };
        for entry in self.queues.values_mut() {
            entry.scheduling = scheduling.clone();
        }
    }

    /// `checkpoint`: it is so after a restart too.
    fn set(
        &mut self,
        target: &Target,
        scheduling: &Scheduling,
        checkpoint: bool,
    ) -> Result<(), QueueError> {
        self.change(target, |entry| {
            entry.scheduling = scheduling.clone();
            if checkpoint {
                entry.saved = scheduling.clone();
            }
        })
    }

    fn change(
        &mut self,
        target: &Target,
        mut change: impl FnMut(&mut Entry),
    ) -> Result<(), QueueError> {
        match &target.name {
            // The anonymous queue can't be named.
            Some(name) => match self.queues.get_mut(name).filter(|_| !name.is_empty()) {
                Some(entry) => change(entry),
                None => return Err(QueueError::Unknown(name.clone())),
            },
            None if self.are_named() && !target.all => return Err(QueueError::AllRequired),
            None => self.queues.values_mut().for_each(change),
        }
        Ok(())
    }

    /// Takes over a new configuration. Queues that were there keep their state; new ones are in their
    /// first.
    pub fn reconfigure(&mut self, new: Queues) {
        let before = std::mem::replace(self, new);
        for (name, old) in before.queues {
            if let Some(entry) = self.queues.get_mut(&name) {
                let settings = std::mem::take(&mut entry.settings);
                *entry = Entry { settings, ..old };
            }
        }
    }
}

impl Queue<'_> {
    /// Whether a job can be submitted to it.
    ///
    /// # Errors
    /// [`QueueError::Disabled`], [`QueueError::QueueDisabled`].
    pub fn admits(&self) -> Result<(), QueueError> {
        let reason = match self.disable_reason() {
            None => return Ok(()),
            Some(reason) => reason.to_owned(),
        };
        Err(match self.name() {
            None => QueueError::Disabled(reason),
            Some(name) => QueueError::QueueDisabled { name: name.to_owned(), reason },
        })
    }

    /// The status object of RFC 33: `{"enable","start","parent"?,"blocked"?,"disable_reason"?,
    /// "stop_reason"?}`.
    pub fn status(&self) -> Map<String, Value> {
        let mut status = Map::new();
        status.insert("enable".to_owned(), json!(self.is_enabled()));
        status.insert("start".to_owned(), json!(self.is_started()));
        let blocked = self.blocked_by().map(|_| "parent".to_owned());
        let more = [
            ("parent", self.parent().map(str::to_owned)),
            ("blocked", blocked),
            ("disable_reason", self.disable_reason().map(str::to_owned)),
            ("stop_reason", self.stop_reason()),
        ];
        for (key, text) in more {
            if let Some(text) = text {
                status.insert(key.to_owned(), text.into());
            }
        }
        status
    }
}
