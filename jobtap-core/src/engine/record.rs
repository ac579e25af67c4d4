//! A job as the engine keeps it: what plugins see, and what the life cycle needs beside it.
//!
//! [`Record::apply`] is the state machine of RFC 21. It is the only place where an event changes a
//! job, live and at replay alike, so that a restarted manager is where the old one was.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::api::{Effect, TimerId, Write};
use super::held::{Opened, Working};
use super::simulated::Simulated;
use super::times::Times;
use crate::eventlog::EventEntry;
use crate::host::{Perilog, PluginKey, Work as RemoteWork};
use crate::job::{Flags, Job, KnownDependency, State, Timestamp, Uid, Unread, Urgency};
use crate::resource::{Idset, ResourceSet};

/// The effects of a job that isn't accepted yet.
#[derive(Debug, Default)]
pub(super) struct Unaccepted {
    pub(super) writes: Vec<Write>,
    /// Its events, for those who follow all jobs.
    pub(super) published: Vec<Effect>,
}

/// One job.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) job: Job,
    /// Events posted and not yet applied.
    pub(super) queue: VecDeque<EventEntry>,
    /// An event of this job is being worked on: more wait in the queue.
    pub(super) busy: bool,
    /// Lines in `eventlog` and in `guest.exec.eventlog`.
    pub(super) lines: u64,
    pub(super) exec_lines: u64,
    /// What waits until the job is accepted; nothing is kept of one that is rejected.
    pub(super) unaccepted: Option<Unaccepted>,
    /// Descriptions of open prologs and epilogs.
    pub(super) prologs: ThinVec<Box<str>>,
    pub(super) epilogs: ThinVec<Box<str>>,
    /// Those of them, posted or applied, that a loaded plugin is going to finish.
    pub(super) opened: ThinVec<Opened>,
    /// Which plugin looks after a dependency.
    pub(super) holders: ThinVec<(Box<str>, PluginKey)>,
    /// Asynchronous handlers at work on it.
    pub(super) working: ThinVec<Working>,
    /// Who wants to know when it ends.
    pub(super) awaiting_end: ThinVec<(PluginKey, RemoteWork)>,
    /// A plugin gives it its resources: the scheduler leaves it alone.
    pub(super) bypass: bool,
    /// Only the instance's owner may change its jobspec.
    pub(super) immutable: bool,
    /// It was refused; only `job.destroy` still sees it.
    pub(super) rejected: bool,
    /// It holds resources: from `alloc` to `free`.
    pub(super) holds: bool,
    /// Ranks that it gave back before the rest.
    released: Idset,
    /// What it holds of its R since then.
    remaining: Option<Box<ResourceSet>>,
    /// After a restart: what it holds is not, or no longer, ours to give.
    pub(super) lost_resources: bool,
    pub(super) exec: Exec,
    /// It was handed to the execution system again, which hasn't confirmed it yet.
    pub(super) reattaching: bool,
    /// Nor has it told all that the job did while no manager ran.
    pub(super) behind: bool,
    /// A simulated execution is over; its release is posted when no other event waits.
    pub(super) release_due: bool,
    pub(super) simulated: Option<Box<Simulated>>,
    /// Ends the job when its time is up.
    pub(super) expiry: Option<TimerId>,
    pub(super) subscribers: ThinVec<PluginKey>,
    pub(super) times: Times,
    pub(super) wait_status: Option<i32>,
    /// The most severe exception, the first among equals, for listings.
    pub(super) exception: Unread<Option<Arc<EventEntry>>>,
    /// Plugins' data, by plugin.
    pub(super) data: Unread<Map<String, Value>>,
    /// The queue in which it is counted.
    pub(super) counted_in: Option<Arc<str>>,
}

/// How far execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Exec {
    /// Not asked for yet.
    #[default]
    Idle,
    /// The job ended in its prolog: it is not asked for at all.
    Never,
    /// Asked for; the last report is still to come.
    Open,
    /// Asked to end.
    Ending,
    /// The last report came.
    Done,
}

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Applied {
    /// The state before, when it changed.
    pub(super) left: Option<State>,
    /// The event was a fatal exception that ended the job.
    pub(super) ended: bool,
}

/// Why an event can't be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApplyError {
    #[error("first event is {0} not submit")]
    FirstEvent(String),
    #[error("eventlog v{0} is unsupported")]
    Version(i64),
    #[error("could not apply {name}{}", .reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    Event { name: String, reason: Option<String> },
}

fn refuse(entry: &EventEntry, reason: impl Into<String>) -> ApplyError {
    ApplyError::Event { name: entry.name.to_string(), reason: Some(reason.into()) }
}

impl Record {
    pub(super) fn new(job: Job) -> Self {
        Self {
            job,
            queue: VecDeque::new(),
            busy: false,
            lines: 0,
            exec_lines: 0,
            unaccepted: None,
            prologs: ThinVec::new(),
            epilogs: ThinVec::new(),
            opened: ThinVec::new(),
            holders: ThinVec::new(),
            working: ThinVec::new(),
            awaiting_end: ThinVec::new(),
            bypass: false,
            immutable: false,
            rejected: false,
            holds: false,
            released: Idset::new(),
            remaining: None,
            lost_resources: false,
            exec: Exec::Idle,
            reattaching: false,
            behind: false,
            release_due: false,
            simulated: None,
            expiry: None,
            subscribers: ThinVec::new(),
            times: Times::default(),
            wait_status: None,
            exception: Unread::default(),
            data: Unread::default(),
            counted_in: None,
        }
    }

    /// A prolog or epilog of this description is open, and no loaded plugin has it.
    pub(super) fn is_orphaned(&self, bracket: Perilog, description: &str) -> bool {
        let open = match bracket {
            Perilog::Prolog => &self.prologs,
            Perilog::Epilog => &self.epilogs,
        };
        open.iter().any(|open| **open == *description)
            && !self.opened.iter().any(|o| o.bracket == bracket && *o.description == *description)
    }

    /// Nothing happens to it for now: gives back the memory that only a busy job needs. A hundred
    /// thousand jobs may wait, and a million be over.
    pub(super) fn rest(&mut self) {
        self.job.jobspec.close();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Nobody is at work on it, and nothing waits for its turn.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.busy
            && self.queue.is_empty()
            && self.working.is_empty()
            && self.awaiting_end.is_empty()
    }

    /// An event of this name is posted and not yet applied.
    pub(super) fn is_queued(&self, name: &str) -> bool {
        self.queue.iter().any(|entry| entry.name == name)
    }

    /// Whether an event of this name is in the log or about to be.
    pub(super) fn is_posted(&self, name: &str) -> bool {
        self.job.event_posted(name) || self.is_queued(name)
    }

    /// The event was posted for a state that the job has left meanwhile: it would change nothing,
    /// and has no place in the log any more.
    pub(super) fn is_void(&self, name: &str) -> bool {
        let state = self.job.state;
        match name {
            "dependency-add" | "dependency-remove" => !matches!(state, State::New | State::Depend),
            "depend" => state != State::Depend,
            "alloc" => state != State::Sched,
            "urgency" => state >= State::Run,
            "priority" => !matches!(state, State::Priority | State::Sched),
            "jobspec-update" => state == State::Cleanup,
            "flux-restart" => state != State::Sched,
            _ => false,
        }
    }

    /// Applies one event.
    pub(super) fn apply(&mut self, entry: &Arc<EventEntry>) -> Result<Applied, ApplyError> {
        let before = self.job.state;
        if before == State::New && !self.job.posted.has("submit") && entry.name != "submit" {
            return Err(ApplyError::FirstEvent(entry.name.to_string()));
        }
        let mut ended = false;
        match &*entry.name {
            "submit" => self.submit(entry)?,
            "dependency-add" | "dependency-remove" => self.dependency(entry)?,
            "priority" => self.priority(entry)?,
            "urgency" => self.urgency(entry)?,
            "jobspec-update" => self.jobspec_update(entry)?,
            "resource-update" => self.resource_update(entry)?,
            "alloc" => self.alloc(entry),
            "prolog-start" | "prolog-finish" => {
                bracket(&mut self.prologs, entry, &*entry.name == "prolog-start")?;
            }
            "epilog-start" | "epilog-finish" if matches!(before, State::Run | State::Cleanup) => {
                bracket(&mut self.epilogs, entry, &*entry.name == "epilog-start")?;
            }
            "start" => self.times.start = entry.timestamp.into(),
            "finish" => self.finish(entry)?,
            "release" => self.release(entry),
            "free" => self.holds = false,
            // All is free by now: which part was so before the rest is nobody's question any more, nor
            // why it never began.
            "clean" => {
                self.released = Idset::new();
                self.remaining = None;
                if self.exec == Exec::Never {
                    self.exec = Exec::Idle;
                }
            }
            "exception" => ended = self.exception(entry)?,
            "memo" => self.memo(entry),
            "set-flags" => self.set_flags(entry)?,
            // The plugins that set it may be others now.
            "flux-restart" if before == State::Sched => self.job.priority = None,
            _ => {}
        }
        self.job.state = next_state(before, &entry.name, ended);
        // The logs don't have these, and what isn't there can't be known after a restart.
        if entry.name != "annotations" {
            self.job.posted.add(&entry.name);
        }
        if self.job.state == before {
            return Ok(Applied { left: None, ended });
        }
        self.entered(entry.timestamp);
        Ok(Applied { left: Some(before), ended })
    }

    fn submit(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if self.job.posted.has("submit") {
            return Err(ApplyError::Event { name: "submit".to_owned(), reason: None });
        }
        match field(entry, "version").and_then(Value::as_i64) {
            None | Some(1) => {}
            Some(version) => return Err(ApplyError::Version(version)),
        }
        self.job.t_submit = entry.timestamp;
        self.job.userid = Uid(u32::try_from(number(entry, "userid")?)
            .map_err(|_| refuse(entry, "userid is out of range"))?);
        self.job.urgency = Urgency::new(number(entry, "urgency")?)
            .map_err(|error| refuse(entry, error.to_string()))?;
        let flags = u32::try_from(number(entry, "flags")?).unwrap_or(u32::MAX);
        self.job.flags =
            Flags::from_bits(flags).map_err(|error| refuse(entry, error.to_string()))?;
        Ok(())
    }

    fn dependency(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if !matches!(self.job.state, State::New | State::Depend) {
            return Ok(());
        }
        let description = text(entry, "description")?;
        let held = self.job.dependencies.iter_mut().find(|held| *held.description == *description);
        match (held, &*entry.name == "dependency-add") {
            // A description works once: neither held nor removed, it can be added.
            (Some(_), true) => {}
            (None, true) => {
                let description = description.into();
                self.job.dependencies.push(KnownDependency { description, open: true });
            }
            (Some(held), false) if held.open => held.open = false,
            (_, false) => return Err(refuse(entry, format!("{description:?} isn't held"))),
        }
        Ok(())
    }

    fn priority(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        if matches!(self.job.state, State::Priority | State::Sched) {
            let value = number(entry, "priority")?;
            let value = u32::try_from(value).map_err(|_| refuse(entry, "out of range"))?;
            self.job.priority = Some(value);
        }
        Ok(())
    }

    fn urgency(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        self.job.urgency = Urgency::new(number(entry, "urgency")?)
            .map_err(|error| refuse(entry, error.to_string()))?;
        Ok(())
    }

    fn jobspec_update(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let updates = entry.context.as_ref().ok_or_else(|| refuse(entry, "no updates"))?;
        self.job.jobspec.update_all(updates).map_err(|error| refuse(entry, error.to_string()))
    }

    fn resource_update(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let expiration = field(entry, "expiration").and_then(Value::as_f64);
        let expiration =
            expiration.ok_or_else(|| refuse(entry, "no number under \"expiration\""))?;
        let resources =
            self.job.resources.as_mut().ok_or_else(|| refuse(entry, "the job has no R"))?;
        let changed = Arc::make_mut(resources).set_expiration(expiration);
        changed.map_err(|error| refuse(entry, error.to_string()))?;
        self.set_remaining();
        Ok(())
    }

    fn alloc(&mut self, entry: &EventEntry) {
        self.holds = true;
        if let Some(Value::Object(annotations)) = field(entry, "annotations") {
            super::annotations::merge(&mut self.job.annotations, annotations);
        }
    }

    fn finish(&mut self, entry: &Arc<EventEntry>) -> Result<(), ApplyError> {
        let status = number(entry, "status")?;
        let status = i32::try_from(status).map_err(|_| refuse(entry, "status is out of range"))?;
        self.wait_status = Some(status);
        if self.job.state == State::Run {
            *self.job.end_event = Some(Arc::clone(entry));
        }
        Ok(())
    }

    fn release(&mut self, entry: &EventEntry) {
        if field(entry, "final").and_then(Value::as_bool) == Some(true) {
            self.exec = Exec::Done;
        } else if let Some(Ok(ranks)) =
            field(entry, "ranks").and_then(Value::as_str).map(str::parse::<Idset>)
        {
            self.released = self.released.union(&ranks);
            self.set_remaining();
        }
    }

    /// What it holds of its R.
    pub(super) fn held(&self) -> Option<&ResourceSet> {
        self.remaining.as_deref().or(self.job.resources.as_deref())
    }

    fn set_remaining(&mut self) {
        if let Some(resources) = self.job.resources.as_ref().filter(|_| !self.released.is_empty()) {
            self.remaining = Some(resources.without_ranks(&self.released).into());
        }
    }

    fn exception(&mut self, entry: &Arc<EventEntry>) -> Result<bool, ApplyError> {
        let severity = number(entry, "severity")?;
        let state = self.job.state;
        if severity == 0 && state == State::New {
            return Err(refuse(entry, "the job isn't accepted yet"));
        }
        let worse = |seen: &Arc<EventEntry>| number(seen, "severity").is_ok_and(|s| severity < s);
        if self.exception.as_ref().is_none_or(worse) {
            *self.exception = Some(Arc::clone(entry));
        }
        if severity != 0 || matches!(state, State::Cleanup | State::Inactive) {
            return Ok(false);
        }
        self.job.end_event.get_or_insert_with(|| Arc::clone(entry));
        if self.exec == Exec::Idle && !self.prologs.is_empty() {
            self.exec = Exec::Never;
        }
        Ok(true)
    }

    fn memo(&mut self, entry: &EventEntry) {
        if let Some(memo) = &entry.context {
            let mut user = Map::new();
            user.insert("user".to_owned(), Value::Object(memo.clone()));
            super::annotations::merge(&mut self.job.annotations, &user);
        }
    }

    fn set_flags(&mut self, entry: &EventEntry) -> Result<(), ApplyError> {
        let flags = field(entry, "flags").and_then(Value::as_array);
        for flag in flags.into_iter().flatten().map(|flag| flag.as_str().unwrap_or_default()) {
            match flag {
                "debug" => self.job.flags |= Flags::DEBUG,
                "immutable" => self.immutable = true,
                "alloc-bypass" => self.bypass = true,
                other => return Err(refuse(entry, format!("unknown flag {other:?}"))),
            }
        }
        Ok(())
    }

    fn entered(&mut self, at: Timestamp) {
        let times = &mut self.times;
        match self.job.state {
            State::New => {}
            State::Depend => times.depend = at.into(),
            // Of these two the first entry counts, since a job passes them again and again.
            State::Priority => times.priority.first(at),
            State::Sched => times.sched.first(at),
            State::Run => times.run = at.into(),
            State::Cleanup => times.cleanup = at.into(),
            State::Inactive => times.inactive = at.into(),
        }
    }
}

/// The transitions of RFC 21.
fn next_state(state: State, event: &str, ended: bool) -> State {
    match (state, event) {
        (State::New, "validate") => State::Depend,
        (State::Depend, "depend") => State::Priority,
        (State::Priority, "priority") => State::Sched,
        (State::Sched, "alloc") => State::Run,
        (State::Sched, "urgency" | "jobspec-update" | "flux-restart") => State::Priority,
        (State::Run, "finish") => State::Cleanup,
        (State::Cleanup, "clean") => State::Inactive,
        (State::Depend | State::Priority | State::Sched | State::Run, "exception") if ended => {
            State::Cleanup
        }
        (state, _) => state,
    }
}

/// Opens or closes a prolog or epilog.
fn bracket(
    open: &mut ThinVec<Box<str>>,
    entry: &EventEntry,
    start: bool,
) -> Result<(), ApplyError> {
    let description = text(entry, "description")?;
    if start {
        open.push(description.into());
    } else if let Some(index) = open.iter().position(|o| **o == *description) {
        open.remove(index);
    }
    Ok(())
}

pub(super) fn field<'e>(entry: &'e EventEntry, key: &str) -> Option<&'e Value> {
    entry.context.as_ref()?.get(key)
}

fn number(entry: &EventEntry, key: &str) -> Result<i64, ApplyError> {
    field(entry, key)
        .and_then(Value::as_i64)
        .ok_or_else(|| refuse(entry, format!("no number under {key:?}")))
}

fn text<'e>(entry: &'e EventEntry, key: &str) -> Result<&'e str, ApplyError> {
    field(entry, key)
        .and_then(Value::as_str)
        .ok_or_else(|| refuse(entry, format!("no text under {key:?}")))
}
