//! The queues of an instance, their state, and how administrators and restarts change it.

use super::config::{Access, Config, Limits, Policy, QueueConfigError, Settings};
use crate::job::Fsd;
use crate::jobspec::Jobspec;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

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
    /// By name, in the order of the configuration. The anonymous queue has an empty name, and exists only if there is
    /// no other.
    queues: IndexMap<String, Entry>,
}

/// The settings and the state of one queue.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    settings: Settings,
    /// Why submission is disabled; `None` if it is enabled.
    disabled: Option<String>,
    scheduling: Scheduling,
    /// The state that a checkpoint contains and a restart restores.
    saved: Scheduling,
}

/// Whether a queue is started, so that its jobs get resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Scheduling {
    started: bool,
    reason: Option<String>,
}

impl Entry {
    fn new(settings: Settings, started: bool) -> Self {
        let scheduling = Scheduling { started, reason: None };
        Self { settings, disabled: None, saved: scheduling.clone(), scheduling }
    }
}

/// A view of one queue, in which settings of its parent and of `[policy]` complete its own.
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
        Self::from_config(Config::default())
    }
}

impl Queues {
    /// The queues of an instance's configuration in their initial state: named queues are enabled and
    /// stopped, the anonymous queue is enabled and started.
    ///
    /// # Errors
    /// [`QueueConfigError`] for the first mistake in `[policy]` or `[queues]`.
    pub fn read(config: &Value) -> Result<Self, QueueConfigError> {
        Config::read(config).map(Self::from_config)
    }

    fn from_config(config: Config) -> Self {
        let Config { policy, queues } = config;
        let named = |(name, settings)| (name, Entry::new(settings, false));
        let mut queues: IndexMap<String, Entry> = queues.into_iter().map(named).collect();
        if queues.is_empty() {
            queues.insert(String::new(), Entry::new(Settings::default(), true));
        }
        Self { policy, queues }
    }

    /// Whether there are named queues, rather than the anonymous one.
    pub fn are_named(&self) -> bool {
        self.anonymous().is_none()
    }

    /// The anonymous queue; if there is one, it is the only queue. It is not looked up by its name: the C library's
    /// comparison of two empty strings takes hundreds of cycles, see [`is_same_queue`].
    fn anonymous(&self) -> Option<(&str, &Entry)> {
        let (name, entry) = self.queues.first()?;
        name.is_empty().then_some((name, entry))
    }

    /// The policy of all queues.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The queue of jobs that name none, if one is configured.
    pub fn default_name(&self) -> Option<&str> {
        self.policy.default_queue.as_deref()
    }

    /// All queues, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = Queue<'_>> {
        self.queues.iter().map(|(name, entry)| self.view(name, entry))
    }

    /// The queue with this name.
    pub fn get(&self, name: &str) -> Option<Queue<'_>> {
        let (name, entry) = self.queues.get_key_value(name).filter(|_| !name.is_empty())?;
        Some(self.view(name, entry))
    }

    /// The queue with this name, or the anonymous queue.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] if there is no such queue, [`QueueError::NameRequired`] if no name is given although the
    /// queues have names.
    pub fn lookup(&self, name: Option<&str>) -> Result<Queue<'_>, QueueError> {
        match name {
            Some(name) => self.get(name).ok_or_else(|| QueueError::Unknown(name.to_owned())),
            None => {
                let anonymous = self.anonymous().map(|(name, entry)| self.view(name, entry));
                anonymous.ok_or(QueueError::NameRequired)
            }
        }
    }

    /// The queue of an accepted job.
    ///
    /// # Errors
    /// Those of [`lookup`](Self::lookup), if the configuration has changed since the submission. The job waits until
    /// its queue is configured again, even if there are no named queues any more.
    pub fn of_job(&self, jobspec: &Jobspec) -> Result<Queue<'_>, QueueError> {
        self.lookup(jobspec.queue())
    }

    fn view<'a>(&'a self, name: &'a str, entry: &'a Entry) -> Queue<'a> {
        let parent = entry.settings.parent.as_deref();
        let parent = parent.and_then(|parent| Some((parent, self.queues.get(parent)?)));
        Queue { name, entry, parent, general: &self.policy }
    }
}

/// Whether two names are those of the same queue. The anonymous queue has an empty name.
///
/// Empty strings are not compared. On processors with AVX-512 the C library compares with masked loads, and an empty
/// string has no valid address: a load from there takes hundreds of cycles although it reads no byte. Each job would
/// need several such comparisons.
#[doc(hidden)]
pub fn is_same_queue(name: &str, other: &str) -> bool {
    name.len() == other.len() && (name.is_empty() || name == other)
}

impl<'a> Queue<'a> {
    /// The name; `None` for the anonymous queue.
    pub fn name(&self) -> Option<&'a str> {
        Some(self.name).filter(|name| !name.is_empty())
    }

    /// The parent of a virtual queue, whose nodes it shares.
    pub fn parent(&self) -> Option<&'a str> {
        self.parent.map(|(name, _)| name)
    }

    /// The name of the alloc queue of its jobs: the parent's for a virtual queue, otherwise its own.
    #[doc(hidden)]
    pub fn alloc_queue(&self) -> &'a str {
        self.parent().unwrap_or(self.name)
    }

    /// Whether jobs can be submitted to the queue.
    pub fn is_enabled(&self) -> bool {
        self.entry.disabled.is_none()
    }

    /// Why submission is disabled; `None` if it is enabled.
    pub fn disable_reason(&self) -> Option<&'a str> {
        self.entry.disabled.as_deref()
    }

    /// Whether jobs of the queue get resources: the queue and its parent are started.
    pub fn is_started(&self) -> bool {
        self.entry.scheduling.started && self.blocked_by().is_none()
    }

    /// The name of the parent, if the queue is started and its parent is stopped.
    pub fn blocked_by(&self) -> Option<&'a str> {
        let (parent, above) = self.parent?;
        (self.entry.scheduling.started && !above.scheduling.started).then_some(parent)
    }

    /// Why the queue is stopped, if a reason was given.
    pub fn stop_reason(&self) -> Option<String> {
        match self.blocked_by() {
            Some(parent) => Some(format!("parent queue '{parent}' is stopped")),
            None => self.entry.scheduling.reason.clone(),
        }
    }

    /// Who may submit jobs to the queue, besides the owner of the instance, who always may.
    pub fn access(&self) -> Access<'a> {
        let own = &self.entry.settings.policy;
        let parent = self.parent.map_or(own, |(_, above)| &above.settings.policy);
        Access::from_policies(&[own, parent, self.general])
    }

    /// The properties that nodes of the queue have. A virtual queue has its parent's.
    pub fn requires(&self) -> &'a [String] {
        &self.parent.map_or(self.entry, |(_, above)| above).settings.requires
    }

    /// The constraint (RFC 31) that jobs of the queue get; `None` if it requires no properties.
    pub fn constraint(&self) -> Option<Value> {
        let requires = self.requires();
        (!requires.is_empty()).then(|| json!({ "properties": requires }))
    }

    /// The default time limit of jobs: the queue's, its parent's, or that of `[policy]`.
    pub fn default_duration(&self) -> Option<Fsd> {
        let above = self.parent.and_then(|(_, above)| above.settings.policy.default_duration);
        let own = self.entry.settings.policy.default_duration;
        own.or(above).or(self.general.default_duration)
    }

    /// The limits of the queue; those that are unset are taken from its parent, then from `[policy]`.
    pub fn limits(&self) -> Limits {
        let above = self.parent.map(|(_, above)| above.settings.policy.limits);
        let own = self.entry.settings.policy.limits;
        own.or(above.unwrap_or_default()).or(self.general.limits)
    }

    /// The scheduler's table: that of `[policy]`, overridden by the keys of the queue.
    pub fn scheduler(&self) -> Value {
        self.entry.settings.policy.scheduler_over(self.general)
    }
}

/// Why a request to a queue is refused. The messages are Flux's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// There is no queue with this name.
    #[error("'{0}' is not a valid queue")]
    Unknown(String),
    /// The queues have names, and the request has none.
    #[error("a named queue is required")]
    NameRequired,
    /// A change of all named queues must be requested explicitly.
    #[error("Use --all to apply this command to all queues")]
    AllRequired,
    /// Disabling a queue needs a reason, which is shown to users.
    #[error("reason is required for disable")]
    ReasonRequired,
    /// Submission to the anonymous queue is disabled.
    #[error("job submission is disabled: {0}")]
    Disabled(String),
    /// Submission to a named queue is disabled.
    #[error("job submission to {name} is disabled: {reason}")]
    QueueDisabled {
        /// The name of the queue.
        name: String,
        /// The reason that an administrator gave.
        reason: String,
    },
}

/// The queues that a request changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The name of one queue.
    pub name: Option<String>,
    /// Whether all queues are meant, if there is no name.
    pub all: bool,
}

impl Target {
    /// All queues, with or without names.
    #[must_use]
    pub const fn all() -> Self {
        Self { name: None, all: true }
    }

    /// The queue with this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), all: false }
    }
}

impl Queues {
    /// Enables submission.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] or [`QueueError::AllRequired`], for an invalid `target`.
    pub fn enable(&mut self, target: &Target) -> Result<(), QueueError> {
        self.change(target, |entry| entry.disabled = None)
    }

    /// Disables submission. A new reason replaces an earlier one.
    ///
    /// # Errors
    /// [`QueueError::ReasonRequired`] without a reason; [`QueueError::Unknown`] or
    /// [`QueueError::AllRequired`] for an invalid `target`.
    pub fn disable(&mut self, target: &Target, reason: Option<&str>) -> Result<(), QueueError> {
        let reason = reason.ok_or(QueueError::ReasonRequired)?;
        self.change(target, |entry| entry.disabled = Some(reason.to_owned()))
    }

    /// Starts scheduling; with `checkpoint` also after a restart.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] or [`QueueError::AllRequired`], for an invalid `target`.
    pub fn start(&mut self, target: &Target, checkpoint: bool) -> Result<(), QueueError> {
        self.set(target, &Scheduling { started: true, reason: None }, checkpoint)
    }

    /// Stops scheduling; with `checkpoint` also after a restart. The reason replaces an earlier one, even
    /// if it is `None`.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] or [`QueueError::AllRequired`], for an invalid `target`.
    pub fn stop(
        &mut self,
        target: &Target,
        reason: Option<&str>,
        checkpoint: bool,
    ) -> Result<(), QueueError> {
        let reason = reason.map(str::to_owned);
        self.set(target, &Scheduling { started: false, reason }, checkpoint)
    }

    /// Stops scheduling in all queues until they are started. A restart restores their earlier state.
    pub fn stop_for_this_run(&mut self, reason: &str) {
        let scheduling = Scheduling { started: false, reason: Some(reason.to_owned()) };
        for entry in self.queues.values_mut() {
            entry.scheduling = scheduling.clone();
        }
    }

    /// Sets the scheduling state; with `checkpoint`, also the state after a restart.
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
            // The empty string must not select the anonymous queue.
            Some(name) => match self.queues.get_mut(name).filter(|_| !name.is_empty()) {
                Some(entry) => change(entry),
                None => return Err(QueueError::Unknown(name.clone())),
            },
            None if self.are_named() && !target.all => return Err(QueueError::AllRequired),
            None => self.queues.values_mut().for_each(change),
        }
        Ok(())
    }

    /// Applies a new configuration. Existing queues keep their state; new ones have the initial state.
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
    /// Checks that jobs can be submitted to the queue.
    ///
    /// # Errors
    /// [`QueueError::Disabled`] or [`QueueError::QueueDisabled`], with the reason.
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

/// The version of the checkpoint that [`Queues::checkpoint`] writes.
#[doc(hidden)]
pub const VERSION: u64 = 1;

/// The stop reason of queues that a restart stops.
const RESTARTED: &str = "Automatically stopped due to restart";

/// The error for a checkpoint that was written by a newer manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "checkpoint.job-manager has version {0}, and this manager knows versions up to {VERSION}: \
     start the manager that wrote it"
)]
pub struct CheckpointError(u64);

impl Queues {
    /// The state of all queues for the key `queue` of `checkpoint.job-manager`.
    pub fn checkpoint(&self) -> Value {
        self.queues.iter().map(|(name, entry)| saved_entry(name, entry)).collect()
    }

    /// Restores the state of the queues from a checkpoint. Queues that are no longer configured are
    /// ignored, and queues that the checkpoint lacks stay as they are. With `stop`, started queues are
    /// stopped.
    ///
    /// # Errors
    /// [`CheckpointError`] if a newer manager wrote the checkpoint.
    pub fn restore(&mut self, checkpoint: &Value, stop: bool) -> Result<(), CheckpointError> {
        let version = checkpoint.get("version").and_then(Value::as_u64).unwrap_or(0);
        if version > VERSION {
            return Err(CheckpointError(version));
        }
        let list = checkpoint.get("queue").and_then(Value::as_array);
        for stored in list.into_iter().flatten() {
            let name = stored.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(entry) = self.queues.get_mut(name) {
                restore_entry(entry, stored, version, stop);
            }
        }
        Ok(())
    }
}

fn saved_entry(name: &str, entry: &Entry) -> Value {
    let Scheduling { started, reason } = &entry.saved;
    let mut table = Map::new();
    if !name.is_empty() {
        table.insert("name".to_owned(), name.into());
    }
    table.insert("enable".to_owned(), json!(entry.disabled.is_none()));
    table.insert("start".to_owned(), json!(started));
    for (key, text) in [("disable_reason", &entry.disabled), ("stop_reason", reason)] {
        if let Some(text) = text {
            table.insert(key.to_owned(), text.as_str().into());
        }
    }
    Value::Object(table)
}

fn restore_entry(entry: &mut Entry, stored: &Value, version: u64, stop: bool) {
    let text = |key: &str| stored.get(key).and_then(Value::as_str).map(str::to_owned);
    let bit = |key: &str| stored.get(key).and_then(Value::as_bool);
    let reason = if version == 0 { "reason" } else { "disable_reason" };
    match bit("enable") {
        Some(true) => entry.disabled = None,
        Some(false) => entry.disabled = Some(text(reason).unwrap_or_default()),
        None => {}
    }
    if let Some(started) = bit("start") {
        let reason = text("stop_reason").filter(|_| !started);
        entry.scheduling = match started && stop {
            true => Scheduling { started: false, reason: Some(RESTARTED.to_owned()) },
            false => Scheduling { started, reason },
        };
        entry.saved = entry.scheduling.clone();
    }
}
