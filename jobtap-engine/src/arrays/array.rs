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
use crate::jobspec::Jobspec;
use crate::resource::Idset;

/// The pause before a refused element is tried again, in seconds. It doubles from one refusal to the next.
const FIRST_PAUSE: f64 = 1.0;

/// The longest of these pauses.
const LONGEST_PAUSE: f64 = 60.0;

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
    /// The number of elements that are at the gates.
    at_gates: usize,
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
            at_gates: 0,
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
        let array = array.ok_or(ArrayLogError::NoSubmit)?;
        Ok(Self { lines, ..array })
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

    /// Whether no element is left that isn't a job yet.
    pub(super) fn has_all_made(&self) -> bool {
        self.waiting.is_empty() && self.at_gates == 0
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
        let at_work = self.at_gates + self.active.len();
        let at_once = self.elements.at_once().map_or(usize::MAX, |most| most.get() as usize);
        let room = ahead.saturating_sub(self.at_gates + self.pending.len());
        let room = room.min(at_once.saturating_sub(at_work)).min(self.waiting.len());
        // After a refusal, one element shows whether others may follow.
        if self.refusal.is_some() { room.min(1_usize.saturating_sub(self.at_gates)) } else { room }
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
        self.at_gates += 1;
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
            self.refusal = None;
            self.at_gates = self.at_gates.saturating_sub(1);
        }
        self.pending.insert(position);
        self.note_job(position, job);
        self.made.insert(position, job);
        is_first
    }

    /// Notes that an element was refused. It is tried again after the others.
    pub(super) fn refused(&mut self, now: Timestamp, position: u32, reason: &str) {
        self.at_gates = self.at_gates.saturating_sub(1);
        self.waiting.insert(position);
        self.put_off.insert(position);
        let pause = self.refusal.as_ref().map_or(FIRST_PAUSE, |before| before.pause * 2.0);
        let pause = pause.min(LONGEST_PAUSE);
        self.refusal = Some(Refusal { reason: reason.to_owned(), next: now + pause, pause });
    }

    pub(super) fn left_pending(&mut self, position: u32) {
        self.pending.remove(position);
    }

    /// Notes that the job of an element has ended.
    pub(super) fn ended(&mut self, position: u32, result: JobResult) {
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
        self.ended.dropped = self.ended.dropped.union(&dropped);
        self.changes.dropped = self.changes.dropped.union(&dropped);
        dropped.len()
    }

    /// Changes the urgency of the elements that aren't jobs yet; returns the one before.
    pub(crate) fn set_urgency(&mut self, now: Timestamp, cred: Cred, urgency: Urgency) -> Urgency {
        let changed = ArrayEvent::Urgency(Changed { urgency, userid: cred.userid });
        self.entries.push(changed.entry(now));
        std::mem::replace(&mut self.urgency, urgency)
    }

    /// Gives up all elements that aren't jobs yet; returns their number.
    pub(crate) fn drop_all_waiting(&mut self) -> usize {
        let all = self.waiting.clone();
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
        if let Some(last) = entries.last() {
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
        !self.pending.is_empty() || !self.waiting.is_empty()
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
        let last = self.jobs.iter().rev().flatten().next().map(|job| JobId::new(job.get()));
        if let Some(last) = last.and_then(|last| jobs.job(last)) {
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
            true => self.elements.indexes_at(&self.waiting.union(&self.pending)),
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
            waiting: self.waiting.len() + self.at_gates,
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
            "waiting": indexes(&self.waiting),
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
