//! Requests that wait for jobs, and the inactive jobs that can still be waited for.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::record::Record;
use crate::engine::api::ReplyTo;
use crate::engine::events::{field, text_field};
use crate::job::{Flags, JobId, WaitStatus};

/// The waiters, and the jobs that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many active jobs can be waited for.
    pub(crate) waitable: usize,
    /// How inactive jobs came out that no client has waited for yet.
    pub(crate) unclaimed_results: BTreeMap<JobId, Value>,
    /// The waiters for a certain job.
    pub(crate) by_id: FxHashMap<JobId, ReplyTo>,
    /// The waiters for any job, in the order in which they came.
    pub(crate) any: BTreeMap<u64, ReplyTo>,
    /// What each of both waits for.
    awaited: FxHashMap<ReplyTo, Awaited>,
    /// How many waiters for any job came so far.
    arrivals: u64,
    /// The waiters until no job is active.
    pub(crate) drain: BTreeSet<ReplyTo>,
    /// The waiters until no job runs.
    pub(crate) idle: BTreeSet<ReplyTo>,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Job(JobId),
    /// Any job; the number by which the waiter came.
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

    /// Takes the waiter that gets this job: the one for this very job, or else the first one for any.
    pub(crate) fn take(&mut self, id: JobId) -> Option<ReplyTo> {
        let first = |any: &mut BTreeMap<_, _>| any.pop_first().map(|(_, reply)| reply);
        let reply = self.by_id.remove(&id).or_else(|| first(&mut self.any))?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes the last waiter for any job.
    pub(crate) fn take_last(&mut self) -> Option<ReplyTo> {
        let (_, reply) = self.any.pop_last()?;
        self.awaited.remove(&reply);
        Some(reply)
    }

    /// Takes all waiters.
    pub(crate) fn take_all(&mut self) -> Vec<ReplyTo> {
        self.awaited.clear();
        let by_id = std::mem::take(&mut self.by_id).into_values();
        let any = std::mem::take(&mut self.any).into_values();
        let drain = std::mem::take(&mut self.drain).into_iter();
        by_id.chain(any).chain(drain).chain(std::mem::take(&mut self.idle)).collect()
    }

    /// Counts a restored job that is inactive, if it can be waited for.
    pub(crate) fn restore_inactive(&mut self, record: &Record) {
        if is_waitable(record) {
            self.unclaimed_results.insert(record.job.id, ending(record));
        }
    }
}

pub(crate) fn is_waitable(record: &Record) -> bool {
    record.job.flags.contains(Flags::WAITABLE)
}

/// How a job came out, as the response to `job-manager.wait`.
pub(crate) fn ending(record: &Record) -> Value {
    let job = &record.job;
    let (success, text) = match job.end_event.as_deref() {
        Some(end) if end.name == "finish" => {
            let status = field(end, "status").and_then(Value::as_i64);
            let status = WaitStatus(status.and_then(|s| i32::try_from(s).ok()).unwrap_or(-1));
            (status.is_success(), status.text())
        }
        Some(end) => {
            let (kind, note) = (text_field(end, "type"), text_field(end, "note"));
            (false, format!("Fatal exception type={kind} {note}"))
        }
        None => (false, "the job has ended without finish and without an exception".to_owned()),
    };
    json!({ "id": job.id, "success": success, "errstr": text })
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
