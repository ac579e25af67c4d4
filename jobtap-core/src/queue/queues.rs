//! All queues of an instance, and one of them as others see it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::config::{Config, Settings};
use super::error::{QueueConfigError, QueueError};
use super::policy::{Limits, Policy};
use crate::job::Fsd;
use crate::jobspec::Jobspec;

/// The queues of an instance: the named ones of `[queues]`, or the anonymous one.
///
/// ```
/// use jobtap_core::queue::Queues;
/// use serde_json::json;
///
/// let config = json!({"queues": {"batch": {"requires": ["compute"]}, "night": {"parent": "batch"}}});
/// let queues = Queues::read(&config)?;
/// let night = queues.get("night").expect("it is configured");
/// assert_eq!(night.requires(), ["compute"]);
/// assert!(night.is_enabled() && !night.is_started());
/// assert!(queues.lookup(None).is_err(), "a named queue is required");
/// # Ok::<(), jobtap_core::queue::QueueConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Queues {
    pub(super) policy: Policy,
    /// The anonymous queue has an empty name, and is there when there is no other.
    pub(super) queues: BTreeMap<String, Entry>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) settings: Settings,
    /// Why no jobs are accepted; `None` when they are.
    pub(super) disabled: Option<String>,
    pub(super) scheduling: Scheduling,
    /// As it will be after a restart.
    pub(super) saved: Scheduling,
}

/// Whether a queue's jobs are given resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scheduling {
    pub(super) started: bool,
    pub(super) reason: Option<String>,
}

impl Entry {
    fn new(settings: Settings, started: bool) -> Self {
        let scheduling = Scheduling { started, reason: None };
        Self { settings, disabled: None, saved: scheduling.clone(), scheduling }
    }
}

/// One queue, with what it has from its parent and from `[policy]`.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    name: &'a str,
    entry: &'a Entry,
    parent: Option<(&'a str, &'a Entry)>,
    general: &'a Policy,
}

impl Default for Queues {
    /// The anonymous queue.
    fn default() -> Self {
        Self::of(Config::default())
    }
}

impl Queues {
    /// The queues that an instance's configuration names, in their first state: enabled, and stopped;
    /// or the anonymous one, which is started.
    ///
    /// # Errors
    /// The first mistake in `[policy]` or `[queues]`.
    pub fn read(config: &Value) -> Result<Self, QueueConfigError> {
        Config::read(config).map(Self::of)
    }

    fn of(config: Config) -> Self {
        let Config { policy, queues } = config;
        let named = |(name, settings)| (name, Entry::new(settings, false));
        let mut queues: BTreeMap<String, Entry> = queues.into_iter().map(named).collect();
        if queues.is_empty() {
            queues.insert(String::new(), Entry::new(Settings::default(), true));
        }
        Self { policy, queues }
    }

    /// Whether the queues have names.
    pub fn are_named(&self) -> bool {
        !self.queues.contains_key("")
    }

    /// What holds for all queues.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The queue of jobs that name none, if one is configured.
    pub fn default_name(&self) -> Option<&str> {
        self.policy.default_queue.as_deref()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = Queue<'_>> {
        self.queues.iter().map(|(name, entry)| self.view(name, entry))
    }

    /// A queue by its name.
    pub fn get(&self, name: &str) -> Option<Queue<'_>> {
        let (name, entry) = self.queues.get_key_value(name).filter(|_| !name.is_empty())?;
        Some(self.view(name, entry))
    }

    /// The queue of a job that names this one, or none.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::NameRequired`].
    pub fn lookup(&self, name: Option<&str>) -> Result<Queue<'_>, QueueError> {
        match name {
            Some(name) => self.get(name).ok_or_else(|| QueueError::Unknown(name.to_owned())),
            None => {
                let anonymous = self.queues.get_key_value("");
                let anonymous = anonymous.map(|(name, entry)| self.view(name, entry));
                anonymous.ok_or(QueueError::NameRequired)
            }
        }
    }

    /// The queue that an accepted job waits in. Where queues have no names any more, that is the
    /// anonymous one, whatever the job says.
    ///
    /// # Errors
    /// Those of [`lookup`](Self::lookup).
    pub fn of_job(&self, jobspec: &Jobspec) -> Result<Queue<'_>, QueueError> {
        self.lookup(jobspec.queue().filter(|_| self.are_named()))
    }

    fn view<'a>(&'a self, name: &'a str, entry: &'a Entry) -> Queue<'a> {
        let parent = entry.settings.parent.as_deref();
        let parent = parent.and_then(|parent| Some((parent, self.queues.get(parent)?)));
        Queue { name, entry, parent, general: &self.policy }
    }
}

impl<'a> Queue<'a> {
    /// Its name; `None` for the anonymous queue.
    pub fn name(&self) -> Option<&'a str> {
        Some(self.name).filter(|name| !name.is_empty())
    }

    /// The queue whose nodes a virtual queue shares.
    pub fn parent(&self) -> Option<&'a str> {
        self.parent.map(|(name, _)| name)
    }

    /// The queue whose order of jobs this one's are in: the parent's of a virtual queue, else its own.
    pub(crate) fn lane(&self) -> &'a str {
        self.parent().unwrap_or(self.name)
    }

    /// Whether jobs can be submitted to it.
    pub fn is_enabled(&self) -> bool {
        self.entry.disabled.is_none()
    }

    /// Why no jobs can be submitted to it.
    pub fn disable_reason(&self) -> Option<&'a str> {
        self.entry.disabled.as_deref()
    }

    /// Whether its jobs are given resources: it is started, and so is its parent.
    pub fn is_started(&self) -> bool {
        self.entry.scheduling.started && self.blocked_by().is_none()
    }

    /// The parent that keeps it stopped though it is started itself.
    pub fn blocked_by(&self) -> Option<&'a str> {
        let (parent, above) = self.parent?;
        (self.entry.scheduling.started && !above.scheduling.started).then_some(parent)
    }

    /// Why its jobs are given no resources, if it is said.
    pub fn stop_reason(&self) -> Option<String> {
        match self.blocked_by() {
            Some(parent) => Some(format!("parent queue '{parent}' is stopped")),
            None => self.entry.scheduling.reason.clone(),
        }
    }

    /// The properties that its nodes have; those of its parent for a virtual queue.
    pub fn requires(&self) -> &'a [String] {
        &self.parent.map_or(self.entry, |(_, above)| above).settings.requires
    }

    /// The constraint (RFC 31) of its jobs; `None` when it requires nothing.
    pub fn constraint(&self) -> Option<Value> {
        let requires = self.requires();
        (!requires.is_empty()).then(|| json!({ "properties": requires }))
    }

    /// The time limit of jobs that ask for none: its own, its parent's, or the general one.
    pub fn default_duration(&self) -> Option<Fsd> {
        let above = self.parent.and_then(|(_, above)| above.settings.policy.default_duration);
        let own = self.entry.settings.policy.default_duration;
        own.or(above).or(self.general.default_duration)
    }

    /// Its limits, with its parent's and the general ones where it says nothing.
    pub fn limits(&self) -> Limits {
        let above = self.parent.map(|(_, above)| above.settings.policy.limits);
        let own = self.entry.settings.policy.limits;
        own.or(above.unwrap_or_default()).or(self.general.limits)
    }

    /// The table of its scheduler: its own over the general one.
    pub fn scheduler(&self) -> Value {
        self.entry.settings.policy.scheduler_over(self.general)
    }
}
