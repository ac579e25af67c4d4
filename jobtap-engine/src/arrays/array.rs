//! One array: its elements by what has become of them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::{Value, json};

use super::log::{ArrayEvent, ArrayLogError, Changed, Changes, Submit};
use crate::api::{Cred, ReplyTo};
use crate::array::{Elements, Progress};
use crate::eventlog::{EventEntry, decode_log};
use crate::job::{Flags, JobId, JobResult, State, Timestamp, Uid, Urgency};
use crate::jobs::{Jobs, Record};
use crate::jobspec::{Jobspec, path};
use crate::resource::Idset;

/// The pause before a refused element is tried again, in seconds. It doubles from one refusal to the next.
const FIRST_PAUSE: f64 = 1.0;

/// The longest of these pauses.
const LONGEST_PAUSE: f64 = 60.0;

/// From this window on, refusals have been so long ago that it is of no use.
const WIDEST: usize = 1024;

/// Where a jobspec has its dependencies.
pub(super) const DEPENDENCIES: &str = "attributes.system.dependencies";

/// Whether a dependency is satisfied for all elements when it is for the first: it is on another job, or on the time.
/// Others, such as `singleton`, are of each element.
pub(super) fn is_of_array(dependency: &Value) -> bool {
    let scheme = dependency.get("scheme").and_then(Value::as_str);
    scheme.is_some_and(|scheme| {
        scheme.starts_with("after") || matches!(scheme, "any-of" | "begin-time")
    })
}

/// A job array.
#[derive(Debug)]
pub(crate) struct Array {
    id: JobId,
    userid: Uid,
    urgency: Urgency,
    flags: Flags,
    /// The jobspec of all elements, without the environment.
    jobspec: Jobspec,
    elements: Arc<Elements>,
    /// What is stored when the array is accepted; `None` from then on.
    origin: Option<Origin>,
    /// Whether plugins have changed the environment.
    new_environment: bool,
    t_submit: Timestamp,
    /// The time of the last event.
    t_last: Timestamp,
    /// The positions that aren't jobs yet.
    waiting: Idset,
    /// Those of them that were refused, and are tried again after the others.
    put_off: Idset,
    refusal: Option<Refusal>,
    /// After a refusal: how many elements may be at the gates at once. It doubles with each that is accepted.
    window: Option<usize>,
    /// The positions of the elements that are at the gates.
    at_gates: Idset,
    /// Those of them that were canceled meanwhile.
    unwanted: Idset,
    /// Whether the elements wait for other jobs.
    depends: bool,
    /// The positions of the elements that are jobs without resources.
    pending: Idset,
    /// The positions of the elements that are jobs, and not inactive.
    active: Idset,
    /// The jobs, by position.
    jobs: Vec<Option<NonZeroU64>>,
    /// The positions whose jobs have ended, and those that were canceled before they became jobs, in `dropped`.
    ended: Changes,
    /// What has happened to elements since the last event.
    changes: Changes,
    /// The elements that have become jobs since the last event.
    made: BTreeMap<u32, JobId>,
    /// Events to log before the changes.
    entries: Vec<EventEntry>,
    /// The number of lines of the eventlog.
    lines: u64,
    waiters: Vec<ReplyTo>,
}

/// What is stored once an array is accepted.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The request, as of a job.
    pub(crate) signed: String,
    /// The environment, if a plugin has changed it.
    pub(crate) environment: Option<String>,
}

/// Why elements don't become jobs at present.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// The reason, as the plugin has given it.
    pub(crate) reason: String,
    /// When the next element is tried.
    pub(crate) next: Timestamp,
    pause: f64,
}

impl Array {
    /// An array whose first element isn't accepted yet.
    pub(super) fn new(
        id: JobId,
        userid: Uid,
        (urgency, flags): (Urgency, Flags),
        (jobspec, elements): (Jobspec, Arc<Elements>),
        origin: Origin,
    ) -> Self {
        let mut waiting = Idset::new();
        if let Some(last) = elements.len().checked_sub(1).and_then(|last| u32::try_from(last).ok())
        {
            waiting.insert_range(0..=last);
        }
        let t_submit = Timestamp::from_secs(0.0);
        let new_environment = origin.environment.is_some();
        let dependencies = path::get(jobspec.value(), DEPENDENCIES).and_then(Value::as_array);
        let depends = dependencies.is_some_and(|all| all.iter().any(is_of_array));
        Self {
            id,
            userid,
            urgency,
            flags,
            jobspec,
            elements,
            origin: Some(origin),
            new_environment,
            t_submit,
            t_last: t_submit,
            waiting,
            put_off: Idset::new(),
            refusal: None,
            window: None,
            at_gates: Idset::new(),
            unwanted: Idset::new(),
            depends,
            pending: Idset::new(),
            active: Idset::new(),
            jobs: Vec::new(),
            ended: Changes::default(),
            changes: Changes::default(),
            made: BTreeMap::new(),
            entries: Vec::new(),
            lines: 0,
            waiters: Vec::new(),
        }
    }

    /// An array as it is stored.
    ///
    /// # Errors
    /// [`ArrayLogError`] if a part of it can't be read.
    pub(crate) fn stored(
        id: JobId,
        jobspec: String,
        elements: &str,
        eventlog: &str,
    ) -> Result<Self, ArrayLogError> {
        let jobspec = Jobspec::stored(jobspec)?;
        let elements: Elements = serde_json::from_str(elements).map_err(ArrayLogError::Elements)?;
        elements.check(jobspec.value())?;
        let entries = decode_log(eventlog)?;
        let mut array: Option<Self> = None;
        let mut content = Some((jobspec, Arc::new(elements)));
        let lines = entries.len() as u64;
        for entry in entries {
            match (ArrayEvent::read(&entry)?, &mut array) {
                (Some(ArrayEvent::Submit(submit)), _) if content.is_some() => {
                    let Some(content) = content.take() else { continue };
                    let flags = Flags::from_bits(submit.flags).unwrap_or_default();
                    let of_request = (submit.urgency, flags);
                    let origin = Origin { signed: String::new(), environment: None };
                    let new = Self::new(id, submit.userid, of_request, content, origin);
                    let (t_submit, new_environment) = (entry.timestamp, submit.new_environment);
                    array = Some(Self { origin: None, new_environment, t_submit, ..new });
                }
                (Some(ArrayEvent::Elements(changes)), Some(array)) => array.replay(&changes),
                (Some(ArrayEvent::Depend), Some(array)) => array.depends = false,
                (Some(ArrayEvent::Urgency(changed)), Some(array)) => {
                    array.urgency = changed.urgency
                }
                (Some(_), _) | (None, None) => return Err(ArrayLogError::NoSubmit),
                // An event of a later version.
                (None, Some(_)) => {}
            }
            if let Some(array) = &mut array {
                array.t_last = entry.timestamp;
            }
        }
        let mut array = array.ok_or(ArrayLogError::NoSubmit)?;
        array.lines = lines;
        array.shrink();
        Ok(array)
    }

    fn replay(&mut self, changes: &Changes) {
        let elements = Arc::clone(&self.elements);
        for (position, job) in elements.positions_of(&changes.made).iter().zip(&changes.jobs) {
            self.waiting.remove(position);
            self.note_job(position, *job);
            self.active.insert(position);
        }
        for (result, indexes) in changes.ended() {
            for position in elements.positions_of(indexes).iter() {
                self.ended.with(result).insert(position);
                self.active.remove(position);
            }
        }
        let dropped = elements.positions_of(&changes.dropped);
        self.waiting = self.waiting.difference(&dropped);
        self.ended.dropped = self.ended.dropped.union(&dropped);
    }

    fn note_job(&mut self, position: u32, job: JobId) {
        let position = position as usize;
        if self.jobs.len() <= position {
            self.jobs.resize(position + 1, None);
        }
        if let Some(place) = self.jobs.get_mut(position) {
            *place = NonZeroU64::new(job.as_u64());
        }
    }

    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn userid(&self) -> Uid {
        self.userid
    }

    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency
    }

    pub(super) fn flags(&self) -> Flags {
        self.flags
    }

    pub(super) fn has_new_environment(&self) -> bool {
        self.new_environment
    }

    pub(crate) fn jobspec(&self) -> &Jobspec {
        &self.jobspec
    }

    pub(crate) fn elements(&self) -> &Elements {
        &self.elements
    }

    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Whether the first element was accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        self.lines > 0 || !self.entries.is_empty()
    }

    /// The number of elements that aren't jobs yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether elements aren't jobs yet.
    pub(crate) fn has_unmade(&self) -> bool {
        !self.has_all_made()
    }

    /// The job that was made last.
    pub(crate) fn last_job(&self) -> Option<JobId> {
        self.jobs.iter().rev().flatten().next().map(|job| JobId::new(job.get()))
    }

    /// Whether no element is left that isn't a job yet.
    pub(super) fn has_all_made(&self) -> bool {
        self.waiting.is_empty() && self.at_gates.is_empty()
    }

    /// Whether all elements have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.has_all_made() && self.active.is_empty()
    }

    /// When all elements had ended; `None` if they haven't.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.is_over().then_some(self.t_last)
    }

    /// The jobs of the elements that have not ended, with their positions.
    pub(crate) fn active_jobs(&self) -> impl Iterator<Item = (u32, JobId)> {
        self.active.iter().filter_map(|position| Some((position, self.job_at(position)?)))
    }

    /// The jobs of the elements at these positions, or the active ones of them, with their positions.
    pub(crate) fn jobs_among(
        &self,
        positions: &Idset,
        active: bool,
    ) -> impl Iterator<Item = (u32, JobId)> {
        let positions = match active {
            true => self.active.intersection(positions),
            false => positions.clone(),
        };
        let jobs = positions.iter().map(|position| (position, self.job_at(position)));
        let jobs: Vec<_> = jobs.collect();
        jobs.into_iter().filter_map(|(position, job)| Some((position, job?)))
    }

    fn job_at(&self, position: u32) -> Option<JobId> {
        let job = self.jobs.get(position as usize)?.map(NonZeroU64::get);
        job.map(JobId::new)
    }

    /// The jobs of the elements at these positions that have not ended, in order.
    pub(crate) fn active_among(&self, positions: &Idset) -> Vec<JobId> {
        let active = self.active.intersection(positions);
        active.iter().filter_map(|position| self.job_at(position)).collect()
    }

    /// The number of elements that may become jobs now, if up to `ahead` may be pending.
    pub(super) fn room(&self, now: Timestamp, ahead: usize) -> usize {
        let is_refused = self.refusal.as_ref().is_some_and(|refusal| now < refusal.next);
        if !self.is_accepted() || is_refused || self.urgency == Urgency::HOLD {
            return 0;
        }
        let at_gates = self.at_gates.len();
        let at_work = at_gates + self.active.len();
        let at_once = self.elements.at_once().map_or(usize::MAX, |most| most.get() as usize);
        // One element waits for other jobs on behalf of all.
        let at_once = if self.depends { at_once.min(1) } else { at_once };
        let room = ahead.saturating_sub(at_gates + self.pending.len());
        let room = room.min(at_once.saturating_sub(at_work)).min(self.waiting.len());
        // After a refusal, few elements show whether others may follow.
        match (&self.refusal, self.window) {
            (Some(_), _) => room.min(1_usize.saturating_sub(at_gates)),
            (None, Some(window)) => room.min(window.saturating_sub(at_gates)),
            (None, None) => room,
        }
    }

    /// The number of elements that are on their way to resources, or wait for them as jobs.
    pub(super) fn ahead(&self) -> usize {
        self.at_gates.len() + self.pending.len()
    }

    /// Whether the elements that are made from now on wait for other jobs.
    pub(super) fn depends(&self) -> bool {
        self.depends
    }

    /// Notes that the dependencies of an element are satisfied: those of the others are, too.
    pub(super) fn dependencies_met(&mut self, now: Timestamp) {
        if self.depends {
            self.depends = false;
            self.entries.push(ArrayEvent::Depend.entry(now));
        }
    }

    /// Whether the element at this position was canceled while it was at the gates.
    pub(super) fn is_unwanted(&self, position: u32) -> bool {
        self.unwanted.contains(position)
    }

    /// Drops what only elements need that aren't jobs yet.
    pub(super) fn shrink(&mut self) {
        if self.has_all_made() && self.elements.bytes() > 0 {
            self.elements = Arc::new(self.elements.bare());
        }
        self.jobspec.close();
    }

    /// Takes the next element to the gates: the first one, or one that was put off.
    pub(super) fn next(&mut self) -> Option<u32> {
        let first = match self.put_off.is_empty() {
            true => self.waiting.first(),
            false => self.waiting.difference(&self.put_off).first().or(self.waiting.first()),
        };
        let position = first?;
        self.waiting.remove(position);
        self.put_off.remove(position);
        self.at_gates.insert(position);
        Some(position)
    }

    /// Notes that an element has become a job; returns whether it is the first one, by which the array is accepted.
    pub(super) fn accepted(&mut self, now: Timestamp, position: u32, job: JobId) -> bool {
        let is_first = !self.is_accepted();
        if is_first {
            let submit = Submit {
                userid: self.userid,
                urgency: self.urgency,
                flags: self.flags.bits(),
                new_environment: self.new_environment,
            };
            self.entries.push(ArrayEvent::Submit(submit).entry(now));
            self.t_submit = now;
        }
        // A job that takes the place of an active one was not made here.
        if self.active.insert(position) {
            self.at_gates.remove(position);
            self.refusal = None;
            self.put_off = Idset::new();
            self.window = self.window.map(|window| window * 2).filter(|window| *window < WIDEST);
        }
        self.pending.insert(position);
        self.note_job(position, job);
        self.made.insert(position, job);
        is_first
    }

    /// Notes that an element was refused. It is tried again after the others.
    pub(super) fn refused(&mut self, now: Timestamp, position: u32, reason: &str) {
        self.at_gates.remove(position);
        if self.unwanted.remove(position) {
            self.note_dropped(&Idset::from(position..=position));
            return;
        }
        self.waiting.insert(position);
        self.put_off.insert(position);
        self.window = Some(1);
        // Several that were at the gates together count once.
        let pause = match &self.refusal {
            None => FIRST_PAUSE,
            Some(before) if now < before.next => before.pause,
            Some(before) => (before.pause * 2.0).min(LONGEST_PAUSE),
        };
        self.refusal = Some(Refusal { reason: reason.to_owned(), next: now + pause, pause });
    }

    pub(super) fn left_pending(&mut self, position: u32) {
        self.pending.remove(position);
    }

    /// Notes when a job ended that was submitted again.
    pub(super) fn note_end(&mut self, at: Option<Timestamp>) {
        self.t_last = at.filter(|at| *at > self.t_last).unwrap_or(self.t_last);
    }

    /// Notes that the job of an element has ended.
    pub(super) fn ended(&mut self, at: Option<Timestamp>, position: u32, result: JobResult) {
        self.note_end(at);
        self.pending.remove(position);
        self.active.remove(position);
        self.ended.with(result).insert(position);
        self.changes.with(result).insert(position);
        if let Some(refusal) = &mut self.refusal {
            // It may have been refused because too many were active.
            refusal.next = Timestamp::from_secs(0.0);
        }
    }

    /// Notes the elements that are pending after a restart.
    pub(super) fn restore_pending(&mut self, pending: Idset) {
        self.pending = pending;
    }

    /// Gives up the elements at these positions that aren't jobs yet; returns their number.
    pub(crate) fn drop_waiting(&mut self, positions: &Idset) -> usize {
        let dropped = self.waiting.intersection(positions);
        self.waiting = self.waiting.difference(&dropped);
        self.put_off = self.put_off.difference(&dropped);
        self.note_dropped(&dropped);
        // Those at the gates are refused there.
        let unwanted = self.at_gates.intersection(positions);
        self.unwanted = self.unwanted.union(&unwanted);
        dropped.len() + unwanted.len()
    }

    fn note_dropped(&mut self, dropped: &Idset) {
        self.ended.dropped = self.ended.dropped.union(dropped);
        self.changes.dropped = self.changes.dropped.union(dropped);
    }

    /// Changes the urgency of the elements that aren't jobs yet; returns the one before.
    pub(crate) fn set_urgency(&mut self, now: Timestamp, cred: Cred, urgency: Urgency) -> Urgency {
        let changed = ArrayEvent::Urgency(Changed { urgency, userid: cred.userid });
        self.entries.push(changed.entry(now));
        std::mem::replace(&mut self.urgency, urgency)
    }

    /// Gives up all elements that aren't jobs yet; returns their number.
    pub(crate) fn drop_all_waiting(&mut self) -> usize {
        let all = self.waiting.union(&self.at_gates);
        self.drop_waiting(&all)
    }

    pub(super) fn take_origin(&mut self) -> Option<Origin> {
        self.origin.take()
    }

    /// The events since the last call, and the number of lines before them.
    pub(super) fn take_entries(&mut self, now: Timestamp) -> (u64, Vec<EventEntry>) {
        let mut entries = std::mem::take(&mut self.entries);
        let changes = std::mem::take(&mut self.changes);
        let made = std::mem::take(&mut self.made);
        if !changes.is_empty() || !made.is_empty() {
            let indexes = |positions: &Idset| self.elements.indexes_at(positions);
            let mut positions = Idset::new();
            for position in made.keys() {
                positions.insert(*position);
            }
            let changes = Changes {
                made: indexes(&positions),
                jobs: made.into_values().collect(),
                completed: indexes(&changes.completed),
                failed: indexes(&changes.failed),
                canceled: indexes(&changes.canceled),
                timeout: indexes(&changes.timeout),
                dropped: indexes(&changes.dropped),
            };
            entries.push(ArrayEvent::Elements(Box::new(changes)).entry(now));
        }
        let before = self.lines;
        self.lines += entries.len() as u64;
        if let Some(last) = entries.last_mut() {
            // Its jobs have ended at different times of one turn. None of them is purged before the array.
            last.timestamp =
                if last.timestamp < self.t_last { self.t_last } else { last.timestamp };
            self.t_last = last.timestamp;
        }
        (before, entries)
    }

    pub(crate) fn wait(&mut self, reply: ReplyTo) {
        self.waiters.push(reply);
    }

    pub(super) fn take_waiters(&mut self) -> Vec<ReplyTo> {
        std::mem::take(&mut self.waiters)
    }

    pub(crate) fn abandon(&mut self, reply: ReplyTo) {
        self.waiters.retain(|waiter| *waiter != reply);
    }

    /// Whether elements have no resources yet.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.has_all_made()
    }

    /// Whether elements wait only since as many others are active as the submission allows at once.
    pub(crate) fn is_limited(&self) -> bool {
        let at_once = self.elements.at_once().map_or(usize::MAX, |most| most.get() as usize);
        !self.waiting.is_empty() && self.active.len() >= at_once
    }

    /// The state of the element that has gone furthest, or of all if they have ended.
    pub(crate) fn state(&self) -> State {
        match (self.is_over(), self.active.len() > self.pending.len()) {
            (true, _) => State::Inactive,
            (false, true) => State::Run,
            (false, false) => State::Sched,
        }
    }

    /// The pending elements as a job, for listings.
    pub(crate) fn as_record(&self, jobs: &Jobs) -> Record {
        let mut record = Record::stored(self.id, self.jobspec.opened());
        let kept = record.job.kept_mut();
        kept.userid = self.userid;
        kept.urgency = self.urgency;
        kept.flags = self.flags;
        kept.t_submit = self.t_submit;
        kept.state = match self.has_pending() {
            true => State::Sched,
            false => self.state(),
        };
        // The others will have what the last one has got.
        if let Some(last) = self.last_job().and_then(|last| jobs.job(last)) {
            kept.priority = last.priority();
            if self.has_pending() && last.state() < State::Run {
                kept.state = last.state();
            }
        }
        record
    }

    /// The attributes of the pending elements, or of the whole array if none is pending, in the form of a job's: `array`
    /// has their indexes, and what holds them back.
    pub(crate) fn attributes(&self, record: &Record) -> Value {
        let shown = match self.has_pending() {
            true => {
                let waiting = self.waiting.union(&self.at_gates);
                self.elements.indexes_at(&waiting.union(&self.pending))
            }
            false => self.elements.indexes().clone(),
        };
        let mut attributes = record.attributes();
        if let Some(map) = attributes.as_object_mut() {
            let array = json!({
                "elements": shown.to_string(),
                "count": self.elements.len(),
                "limited": self.is_limited(),
                "refused": self.refusal.as_ref().map(|refusal| &refusal.reason),
            });
            map.insert("array".to_owned(), array);
            if let Some(end) = self.end() {
                map.insert("t_inactive".to_owned(), end.as_secs().into());
                map.insert("result".to_owned(), self.worst().value().into());
            }
        }
        attributes
    }

    /// The result of the element that came out worst.
    fn worst(&self) -> JobResult {
        let ended = &self.ended;
        match () {
            () if !ended.failed.is_empty() => JobResult::Failed,
            () if !ended.timeout.is_empty() => JobResult::Timeout,
            () if !ended.canceled.is_empty() || !ended.dropped.is_empty() => JobResult::Canceled,
            () => JobResult::Completed,
        }
    }

    /// How far the elements have come, as plugins see it.
    pub(crate) fn progress(&self) -> Progress {
        let ended = &self.ended;
        let failed = [&ended.failed, &ended.canceled, &ended.timeout, &ended.dropped];
        Progress {
            userid: self.userid,
            waiting: self.waiting.len() + self.at_gates.len(),
            active: self.active.len(),
            completed: ended.completed.len(),
            failed: failed.iter().map(|positions| positions.len()).sum(),
        }
    }

    /// What has become of the elements, as clients see it.
    pub(crate) fn response(&self) -> Value {
        let indexes = |positions: &Idset| self.elements.indexes_at(positions).to_string();
        let ended = &self.ended;
        let mut response = json!({
            "id": self.id,
            "userid": self.userid,
            "urgency": self.urgency,
            "name": self.jobspec.display_name(),
            "queue": self.jobspec.queue(),
            "t_submit": self.t_submit.as_secs(),
            "count": self.elements.len(),
            "indexes": self.elements.indexes().to_string(),
            "waiting": indexes(&self.waiting.union(&self.at_gates)),
            "pending": self.pending.len(),
            "running": self.active.difference(&self.pending).len(),
            "completed": indexes(&ended.completed),
            "failed": indexes(&ended.failed),
            "canceled": indexes(&ended.canceled.union(&ended.dropped)),
            "timeout": indexes(&ended.timeout),
            "over": self.is_over(),
        });
        if let (Some(refusal), Some(response)) = (&self.refusal, response.as_object_mut()) {
            response.insert("refused".to_owned(), refusal.reason.clone().into());
        }
        response
    }
}
