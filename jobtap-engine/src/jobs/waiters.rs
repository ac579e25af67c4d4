//! Requests that wait for jobs, and the inactive jobs that can still be waited for.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::counts::Counts;
use super::record::Record;
use crate::api::{Effects, ReplyTo, RequestError};
use crate::eventlog::{Event, EventEntry, Raised};
use crate::host::errno::{ECHILD, ENOSYS};
use crate::job::{Flags, JobId, State, WaitStatus};

/// The waiters, and the jobs that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The number of active jobs that can be waited for.
    waitable: usize,
    /// The responses about inactive jobs that no client has waited for yet.
    pub(crate) unclaimed_results: BTreeMap<JobId, Value>,
    /// The waiters for a particular job, by its id.
    pub(crate) by_id: FxHashMap<JobId, ReplyTo>,
    /// The waiters for any job, in the order in which they came.
    any: BTreeMap<u64, ReplyTo>,
    /// What each waiter in `by_id` and `any` waits for.
    awaited: FxHashMap<ReplyTo, Awaited>,
    /// The number of waiters for any job so far.
    arrivals: u64,
    /// The waiters until no job is active.
    pub(crate) drain: BTreeSet<ReplyTo>,
    /// The waiters until no job runs.
    pub(crate) idle: BTreeSet<ReplyTo>,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Job(JobId),
    /// Any job; the waiter's key in `any`.
    Any(u64),
}

impl Waiters {
    /// Removes a waiter whose client has gone.
    pub(crate) fn abandon(&mut self, reply: ReplyTo) {
        match self.awaited.remove(&reply) {
            Some(Awaited::Job(id)) => drop(self.by_id.remove(&id)),
            Some(Awaited::Any(number)) => drop(self.any.remove(&number)),
            None => {}
        }
        self.drain.remove(&reply);
        self.idle.remove(&reply);
    }

    pub(crate) fn insert_for(&mut self, id: JobId, reply: ReplyTo) {
        self.by_id.insert(id, reply);
        self.awaited.insert(reply, Awaited::Job(id));
    }

    pub(crate) fn insert_for_any(&mut self, reply: ReplyTo) {
        self.arrivals += 1;
        self.any.insert(self.arrivals, reply);
        self.awaited.insert(reply, Awaited::Any(self.arrivals));
    }

    /// Takes the waiter for this job, or else the first waiter for any job.
    fn take(&mut self, id: JobId) -> Option<ReplyTo> {
        let first = |any: &mut BTreeMap<_, _>| any.pop_first().map(|(_, reply)| reply);
        let reply = self.by_id.remove(&id).or_else(|| first(&mut self.any))?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes the last waiter for any job.
    fn take_last(&mut self) -> Option<ReplyTo> {
        let (_, reply) = self.any.pop_last()?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes all waiters.
    fn take_all(&mut self) -> Vec<ReplyTo> {
        self.awaited.clear();
        let by_id = std::mem::take(&mut self.by_id).into_values();
        let any = std::mem::take(&mut self.any).into_values();
        let drain = std::mem::take(&mut self.drain).into_iter();
        by_id.chain(any).chain(drain).chain(std::mem::take(&mut self.idle)).collect()
    }

    /// Refuses the waiters for which no job is left: each waiter takes one job.
    pub(crate) fn refuse_excess(&mut self, effects: &mut Effects) {
        while self.any.len() + self.by_id.len() > self.waitable {
            let Some(waiter) = self.take_last() else {
                return;
            };
            let error = RequestError::new(ECHILD, "there are no more waitable jobs");
            effects.reply(waiter, Err(error));
        }
    }

    /// Refuses all waiters, since the manager ends.
    pub(crate) fn refuse_all(&mut self, effects: &mut Effects) {
        for waiter in self.take_all() {
            effects.reply(waiter, Err(RequestError::new(ENOSYS, "job-manager is unloading")));
        }
    }

    /// Counts a job that is active from now on, if it can be waited for.
    pub(crate) fn count_active(&mut self, record: &Record) {
        if is_waitable(record) {
            self.waitable += 1;
        }
    }

    /// Responds to the waiter for a job that has become inactive, or keeps the response for a later waiter.
    pub(crate) fn respond(&mut self, effects: &mut Effects, record: &Record) {
        if !is_waitable(record) {
            return;
        }
        self.waitable = self.waitable.saturating_sub(1);
        let (id, ending) = (record.job.id(), ending(record));
        match self.take(id) {
            Some(waiter) => effects.reply(waiter, Ok(ending)),
            None => drop(self.unclaimed_results.insert(id, ending)),
        }
        self.refuse_excess(effects);
    }

    /// Responds to the `drain` and `idle` requests if there is nothing left to wait for. `waiting` elements of arrays
    /// aren't jobs yet; `is_settled` says whether no job waits for resources.
    pub(crate) fn answer_idle(
        &mut self,
        effects: &mut Effects,
        counts: &Counts,
        waiting: impl Fn() -> u64,
        is_settled: impl Fn() -> bool,
    ) {
        if self.drain.is_empty() && self.idle.is_empty() {
            return;
        }
        let running = counts.count(&[State::Run, State::Cleanup]);
        let pending = counts.count(&[State::New, State::Depend, State::Priority, State::Sched]);
        let pending = pending + waiting();
        if running > 0 {
            return;
        }
        if pending == 0 {
            for waiter in std::mem::take(&mut self.drain) {
                effects.reply(waiter, Ok(json!({})));
            }
        }
        if is_settled() {
            for waiter in std::mem::take(&mut self.idle) {
                effects.reply(waiter, Ok(json!({ "pending": pending })));
            }
        }
    }

    /// Counts a restored job that is inactive, if it can be waited for.
    pub(crate) fn restore_inactive(&mut self, record: &Record) {
        if is_waitable(record) {
            self.unclaimed_results.insert(record.job.id(), ending(record));
        }
    }
}

pub(crate) fn is_waitable(record: &Record) -> bool {
    record.job.kept().flags.contains(Flags::WAITABLE)
}

/// How a job came out, as the response to `job-manager.wait`.
fn ending(record: &Record) -> Value {
    let job = &record.job;
    let (success, text) = match job.end_event().map(EventEntry::event) {
        Some(Ok(Event::Finish { status })) => {
            let status = WaitStatus(status);
            (status.is_success(), status.text())
        }
        Some(Ok(Event::Exception(Raised { kind, note, .. }))) => {
            (false, format!("Fatal exception type={kind} {note}"))
        }
        _ => (false, "the job has ended without finish and without an exception".to_owned()),
    };
    json!({ "id": job.id(), "success": success, "errstr": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waiter_for_this_job_comes_before_those_for_any() {
        let mut waiters = Waiters::default();
        waiters.insert_for_any(ReplyTo(1));
        waiters.insert_for(JobId::new(7), ReplyTo(2));
        waiters.insert_for_any(ReplyTo(3));
        assert_eq!(waiters.take(JobId::new(7)), Some(ReplyTo(2)));
        assert_eq!(waiters.take(JobId::new(7)), Some(ReplyTo(1)));
        assert_eq!(waiters.take(JobId::new(8)), Some(ReplyTo(3)));
        assert_eq!(waiters.take(JobId::new(9)), None);
    }

    #[test]
    fn a_waiter_whose_client_has_gone_takes_no_job() {
        let mut waiters = Waiters::default();
        waiters.insert_for_any(ReplyTo(1));
        waiters.insert_for(JobId::new(7), ReplyTo(2));
        waiters.abandon(ReplyTo(1));
        waiters.abandon(ReplyTo(2));
        assert_eq!(waiters.take(JobId::new(7)), None);
        assert_eq!(waiters.take_all(), []);
    }
}
